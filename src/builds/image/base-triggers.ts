import { type Engine, EngineError } from "../../compute/docker/engine/engine.ts";
import { BuildFailure } from "../failure.ts";
import { type BaseName, checkBaseNames } from "./base-names.ts";

/** What `GET /images/{name}/json` tells. */
interface BaseImage {
  Os: string;
  Architecture: string;
  Config: { OnBuild: string[] | null } | null;
}

/** A large image over a slow link: 5 GB at 3 MB/s. */
const pullTimeoutMs = 1_800_000;

/**
 * An image may bring instructions for builds that begin with it (`ONBUILD`). They stand in no Dockerfile, so the image is
 * looked at before the build: what they copy from is checked as if they stood there. The engine then builds with the
 * image that was looked at, as long as it pulls it no second time: which is why another platform is refused.
 * @throws BuildFailure `Unsupported`; `BuildFailed` when there is no such image for us.
 */
export async function checkTriggers(engine: Engine, bases: BaseName[], signal: AbortSignal): Promise<void> {
  for (const base of bases) {
    const image = (await find(engine, base.name)) ?? (await pull(engine, base, signal));
    checkPlatform(base, image);
    const triggers = image.Config?.OnBuild ?? [];
    for (const trigger of triggers) checkTrigger(base, trigger);
  }
}

const find = (engine: Engine, name: string) =>
  engine.callUnless<BaseImage>([404], "GET", `/images/${encodeURIComponent(name)}/json`);

async function pull(engine: Engine, { name, instruction }: BaseName, signal: AbortSignal): Promise<BaseImage> {
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
  const pulled = await find(engine, name);
  if (pulled === undefined) throw new BuildFailure("BuildFailed", `${instruction.trim()}: it was pulled and is gone.`);
  return pulled;
}

function checkPlatform({ platform, instruction }: BaseName, { Os, Architecture }: BaseImage): void {
  const here = `${Os}/${Architecture}`;
  if (platform === null || platform === here || platform.startsWith(`${here}/`)) return;
  throw new BuildFailure(
    "Unsupported",
    `'${instruction.trim()}' asks for a platform other than ${here}, which this container engine has of it. Remove --platform, or build the image elsewhere.`,
  );
}

function checkTrigger({ name, instruction }: BaseName, trigger: string): void {
  try {
    checkBaseNames(trigger);
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    throw new BuildFailure("Unsupported", `'${instruction.trim()}': the image ${name} has ONBUILD: ${error.message}`);
  }
}
