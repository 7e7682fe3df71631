import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Engine, EngineError } from "../../compute/docker/engine/engine.ts";
import { authHeader, baseTag } from "../../compute/docker/images/images.ts";
import { ImageTooLarge, inspectImage } from "../../compute/docker/images/inspect-image.ts";
import { readRegistryCredential } from "../../compute/docker/images/registry-auth.ts";
import { labels } from "../../compute/docker/replicas/container.ts";
import type { ImageTarget } from "../build.ts";
import { inTurn } from "../cache/install-once.ts";
import { BuildFailure } from "../failure.ts";
import type { BuildContext } from "../worker/run-command.ts";
import type { OpenTarget } from "./build-network.ts";
import { packContext } from "./context.ts";
import { type Instruction, plain } from "./dockerfile.ts";
import { buildInEngine } from "./engine-build.ts";

/** A base as a generated Dockerfile uses it. */
export interface UsedBase {
  /** What `FROM` names. */
  name: string;
  /** Instructions of a stage that must come first; none when the base is an image of its own. */
  stage: Instruction[];
}

/** Where builds get the base for agents of one kind. */
export interface Bases {
  use(recipe: BaseRecipe): Promise<UsedBase>;
}

/** The base image for agents of one kind. */
export interface BaseRecipe {
  /** Part of its name. */
  kind: string;
  /** The agents it is for, named in the build log. */
  people: string;
  /** The operator's image on which it is based. */
  from: string;
  instructions: Instruction[];
  /** Files to copy into it, by their names in the build context. */
  files: Record<string, string>;
  /** Name under which users can build on it. */
  publicName?: string;
}

/** Bases that are images of the engine, shared by all builds. */
export const engineBases = (engine: Engine, target: OpenTarget, context: BuildContext): Bases => ({
  async use(recipe) {
    const { name, isNew } = await makeBase(engine, target, context, recipe);
    const tag = { repo: recipe.publicName, tag: "latest" };
    if (isNew && recipe.publicName !== undefined) await engine.call("POST", `/images/${name}/tag`, { query: tag });
    return { name, stage: [] };
  },
});

/** Directory of the base's files in a build context. */
export const contextBase = "base";

/** Bases that are a stage of the same Dockerfile, for builders that share no images. */
export const stageBases = ({ sourceDir }: BuildContext): Bases => ({
  async use({ instructions, files }) {
    await writeFiles(path.join(path.dirname(sourceDir), contextBase), files);
    const name = "pierhead-base";
    const stage = instructions.map((one) => {
      const text = one.text.replace(/^FROM .*$/, `$& AS ${name}`).replace(/^COPY /, `COPY ${contextBase}/`);
      return { ...one, text };
    });
    return { name, stage };
  },
});

/** Limit in bytes. An agent server and its dependencies are 135 MB in JavaScript, 300 MB in Python. */
const baseBytesMax = 2 * 1024 * 1024 * 1024;

/**
 * Creates a base image that all builds share, unless it exists. It is created again when an input changes, including the
 * operator's own image.
 * @returns its name, and whether it is new.
 */
async function makeBase(
  engine: Engine,
  target: OpenTarget,
  context: BuildContext,
  { kind, people, from, files, ...recipe }: BaseRecipe,
): Promise<{ name: string; isNew: boolean }> {
  const instructions = [...recipe.instructions, unmarked];
  const what = [await imageId(engine, from, target), instructions.map(({ text }) => text), files];
  const digest = createHash("sha256").update(JSON.stringify(what)).digest("hex").slice(0, 16);
  const name = `${baseTag(target.installationId)}${kind}-${digest}`;
  const isThere = async () => (await inspectImage(engine, name)) !== undefined;
  let isNew = false;
  if (await isThere()) await noteUse(engine, name);
  else {
    // Without the lock, a second build would move the tag, and the first image would be left without a name.
    await inTurn(context, path.join(context.cacheDir, "bases", digest), async () => {
      if (await isThere()) return;
      context.log.say(`Creating the base image for ${people}, once.`);
      await build(engine, target, context, { name, instructions, files });
      isNew = true;
    });
  }
  return { name, isNew };
}

async function build(
  engine: Engine,
  target: OpenTarget,
  context: BuildContext,
  { name, instructions, files }: Pick<BaseRecipe, "instructions" | "files"> & { name: string },
): Promise<void> {
  const directory = path.join(path.dirname(context.sourceDir), contextBase);
  await writeFiles(directory, { ...files, Dockerfile: instructions.map(({ text }) => text).join("\n") });
  const wanted = { context: packContext(directory, ["."]), dockerfile: "Dockerfile", tag: name, labels: {} };
  await buildInEngine(
    engine,
    { ...wanted, target, instructions, diskBytesMax: baseBytesMax, stageLabel: null, mayUseCache: true },
    context,
  );
  await rm(directory, { recursive: true, force: true });
}

/** Writes files to a directory that is new or replaced. */
async function writeFiles(directory: string, files: Record<string, string>): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory);
  for (const [file, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(directory, file)), { recursive: true });
    await writeFile(path.join(directory, file), text);
  }
}

/**
 * Clears the label. Derived images inherit labels: those that users build on a base are not ours, and bases are known by
 * name.
 */
const unmarked = plain(`LABEL "${labels.installation}"=""`);

/**
 * Updates the time of the last tag. When images exceed their disk limit, the bases that were not used for longest are
 * removed first.
 */
async function noteUse(engine: Engine, name: string): Promise<void> {
  const [repo, tag] = name.split(":");
  await engine.callUnless([404], "POST", `/images/${name}/tag`, { query: { repo, tag } });
}

/** Returns the operator's additional certificates, which builds and agents need too: nothing else works behind a proxy. */
export async function readCertificates(env: Record<string, string>): Promise<string | null> {
  const file = env["NODE_EXTRA_CA_CERTS"];
  return file === undefined ? null : readFile(file, "utf8").catch(() => null);
}

/** Returns the id of an image, and pulls it first if necessary, with the operator's credential for its registry. */
async function imageId(engine: Engine, name: string, target: ImageTarget): Promise<string> {
  const find = () =>
    inspectImage(engine, name).catch((error: unknown) => {
      if (!(error instanceof ImageTooLarge)) throw error;
      throw new BuildFailure("ToolchainFailed", `The image ${name} cannot be used: ${error.message}.`);
    });
  const found = await find();
  if (found !== undefined) return found.Id;
  try {
    await pull(engine, name, target);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    throw new BuildFailure("ToolchainFailed", `The image ${name} cannot be pulled: ${error.message}`);
  }
  return (await find())?.Id ?? name;
}

async function pull(engine: Engine, name: string, { registryAuthFile: file }: ImageTarget): Promise<void> {
  const query = { fromImage: name, tag: /:[^/]+$/.test(name) ? undefined : "latest" };
  const headers = authHeader(name, file === null ? null : await readRegistryCredential(file, name));
  const options = { query, headers, timeoutMs: pullTimeoutMs };
  for await (const { error } of engine.values<{ error?: string }>("POST", "/images/create", options)) {
    if (error !== undefined) throw new EngineError(500, error);
  }
}

const pullTimeoutMs = 600_000;
