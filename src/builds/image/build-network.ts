import { Engine } from "../../compute/docker/engine/engine.ts";
import { closeBuildNetwork, openBuildNetwork } from "../../compute/docker/networks/networks.ts";
import type { EngineInfo } from "../../compute/docker/replicas/container.ts";
import type { BuildRequest, ImageTarget } from "../build.ts";

/** A target with what one build has created in the engine and knows about it. */
export interface OpenTarget extends ImageTarget {
  /** Network of the build's programs. */
  network: string;
  /** False on a kernel that cannot limit processes. */
  canLimitProcesses: boolean;
}

/** Time for the engine to remove the containers of a build that was stopped. */
const closeTimeoutMs = 10_000;

/** Runs `act` with a network of its own for the programs of a build, and removes the network. */
export async function withBuildNetwork<T>(
  engine: Engine,
  target: ImageTarget,
  buildId: string,
  act: (open: OpenTarget) => Promise<T>,
): Promise<T> {
  const { installationId } = target;
  const { PidsLimit: canLimitProcesses } = await engine.call<EngineInfo>("GET", "/info");
  const network = await openBuildNetwork(engine, installationId, buildId);
  try {
    return await act({ ...target, network, canLimitProcesses });
  } finally {
    // The result of a build does not depend on it: the next start of the server removes what is left.
    await closeBuildNetwork(engine, installationId, buildId, closeTimeoutMs).catch(() => {});
  }
}

/** Removes the network of a build whose process was killed. An engine that does not answer does not delay the caller. */
export async function removeBuildNetwork({ target, buildId }: Pick<BuildRequest, "target" | "buildId">): Promise<void> {
  if (target.kind !== "image") return;
  try {
    const engine = await new Engine(target.host).open();
    const timer = setTimeout(() => engine.close(), closeTimeoutMs);
    await closeBuildNetwork(engine, target.installationId, buildId, closeTimeoutMs).finally(() => clearTimeout(timer));
    engine.close();
  } catch {
    // The next start of the server removes it.
  }
}
