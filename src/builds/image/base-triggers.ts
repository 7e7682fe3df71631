import { type Engine, EngineError } from "../../compute/docker/engine/engine.ts";
import { type ImageDetails, ImageTooLarge, inspectImage } from "../../compute/docker/images/inspect-image.ts";
import { BuildFailure } from "../failure.ts";
import { type BaseName, checkBaseNames } from "./base-names.ts";
import { checkExpansions } from "./expansions.ts";
import { checkEngineCalls, type Registries } from "./registries.ts";

/** Limit for pulling a base image: a large image over a slow link, 5 GB at 3 MB/s. */
const pullTimeoutMs = 1_800_000;

/**
 * Checks the images that a Dockerfile names, and the instructions that a base image adds to builds (`ONBUILD`). No Dockerfile has
 * those, so the image is inspected before the build, and the images that its triggers copy from are checked as if the Dockerfile
 * contained them. The engine uses the inspected image as long as it does not pull again, so a different platform is rejected.
 * @returns whether there are such instructions.
 * @throws BuildFailure `Unsupported`; `BuildFailed` when the image does not exist or cannot be pulled.
 */
export async function checkTriggers(
  engine: Engine,
  dockerfile: string,
  { target, signal }: { target: Registries; signal: AbortSignal },
): Promise<boolean> {
  const bases = checkBaseNames(dockerfile);
  await checkEngineCalls(dockerfile, target);
  const added: { variables: string[]; triggers: string[] } = { variables: [], triggers: [] };
  for (const base of bases) {
    const image = (await find(engine, base)) ?? (await pull(engine, base, signal));
    checkPlatform(base, image);
    const triggers = image.Config?.OnBuild ?? [];
    for (const trigger of triggers) await checkTrigger(base, trigger, target);
    added.triggers.push(...triggers);
    added.variables.push(...(image.Config?.Env ?? []));
  }
  checkExpansions(dockerfile, added);
  return added.triggers.length > 0;
}

const find = (engine: Engine, { name, instruction }: BaseName) =>
  inspectImage(engine, name).catch((error: unknown) => {
    if (!(error instanceof ImageTooLarge)) throw error;
    throw new BuildFailure("BuildFailed", `${instruction.trim()}: ${error.message}. Use an image with less.`);
  });

async function pull(engine: Engine, base: BaseName, signal: AbortSignal): Promise<ImageDetails> {
  const { name, instruction } = base;
  const isTagged = name.includes("@") || /:[^:/]+$/.test(name);
  const query = { fromImage: name, tag: isTagged ? undefined : "latest" };
  try {
    const progress = engine.values<{ error?: string }>("POST", "/images/create", {
      query,
      signal,
      timeoutMs: pullTimeoutMs,
    });
    for await (const { error } of progress) if (error !== undefined) throw new EngineError(500, error);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof EngineError) throw new BuildFailure("BuildFailed", `${instruction.trim()}: ${error.message}`);
    throw error;
  }
  const pulled = await find(engine, base);
  if (pulled === undefined)
    throw new BuildFailure("BuildFailed", `${instruction.trim()}: the image was removed after it was pulled.`);
  return pulled;
}

function checkPlatform({ platform, instruction }: BaseName, { Os, Architecture }: ImageDetails): void {
  const here = `${Os}/${Architecture}`;
  if (platform === null || platform === here || platform.startsWith(`${here}/`)) return;
  throw new BuildFailure(
    "Unsupported",
    `'${instruction.trim()}' requires a platform other than ${here}, the one this container engine has for this image. Remove --platform, or build the image elsewhere.`,
  );
}

async function checkTrigger({ name, instruction }: BaseName, trigger: string, target: Registries): Promise<void> {
  try {
    checkBaseNames(trigger);
    await checkEngineCalls(trigger, target);
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    throw new BuildFailure("Unsupported", `'${instruction.trim()}': the image ${name} has ONBUILD: ${error.message}`);
  }
}
