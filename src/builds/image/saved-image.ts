import type { Engine } from "../../compute/docker/engine/engine.ts";
import type { Artifact } from "../../contract/listeners/assignment.ts";
import type { BuildTarget } from "../build.ts";
import { readArtifact, removeArtifact } from "../cache/artifact.ts";

/**
 * Whether what an artifact names is there still, for replicas of this kind of target to be started from. Images that
 * were not built here come from their registry: they count as there.
 */
export async function isUsable(artifact: Artifact, target: BuildTarget): Promise<boolean> {
  if (artifact.kind === "directory") {
    return target.kind === "directory" && (await readArtifact(artifact.path)) !== undefined;
  }
  // Where there are no images nothing of engines is loaded: the build of a working directory begins 40 ms sooner.
  const { builtRepositoryPrefix } = await import("../../compute/docker/images/images.ts");
  if (!artifact.uri.startsWith(builtRepositoryPrefix)) return true;
  if (target.kind !== "image") return false;
  return withEngine(target.host, async (engine) => {
    return (await engine.callUnless([404], "GET", `/images/${artifact.digest}/json`)) !== undefined;
  });
}

/**
 * Removes a built artifact with all that belongs to it. An image that a container still uses stays, and so does its
 * manifest, for the next time.
 * @returns whether it is gone.
 */
export async function dropArtifact(directory: string, target: BuildTarget): Promise<boolean> {
  const artifact = await readArtifact(directory);
  if (artifact?.kind === "image" && target.kind === "image") {
    const isGone = await withEngine(target.host, async (engine) => {
      await engine.callUnless([404, 409], "DELETE", `/images/${encodeURIComponent(artifact.uri)}`);
      return (await engine.callUnless([404], "GET", `/images/${encodeURIComponent(artifact.uri)}/json`)) === undefined;
    });
    if (!isGone) return false;
  }
  await removeArtifact(directory);
  return true;
}

async function withEngine<T>(host: string, ask: (engine: Engine) => Promise<T>): Promise<T> {
  const { Engine } = await import("../../compute/docker/engine/engine.ts");
  const engine = await new Engine(host).open();
  try {
    return await ask(engine);
  } finally {
    engine.close();
  }
}
