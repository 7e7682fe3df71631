import { readdir, rm } from "node:fs/promises";
import path from "node:path";
import type { BuildTarget } from "../builds/build.ts";
import type { Compute, ReplicaLogs } from "../compute/compute.ts";
import { describeError, type Logger } from "../telemetry/log.ts";
import type { Config } from "./config.ts";
import type { ImageNames } from "./registry.ts";

/** What decides how agents run, in a server and in a listener of its own. */
type ComputeConfig = Pick<
  Config,
  "dataDir" | "dockerHost" | "dockerReadOnlyRoot" | "dockerImagesMaxGib" | "registryAuthFile" | "simulatedSeed"
> & {
  compute: Config["compute"] | "kubernetes";
};

interface ComputeGround {
  installationId: string;
  imageNames?: ImageNames;
  logger: Logger;
}

/**
 * The driver the operator chose; null: this server runs no agents itself. What another one runs since before that choice is
 * ended: nobody would see it any more, nor end it, and it would go on with what it does.
 */
export async function openCompute(
  config: ComputeConfig,
  ground: ComputeGround,
): Promise<Compute | (Compute & ReplicaLogs) | null> {
  const compute = await open(config, ground);
  if (config.compute === "process") await endReplicasOf("docker", config, ground);
  if (config.compute === "docker") await endReplicasOf("process", config, ground);
  return compute;
}

/** What a driver keeps of its replicas, below the data directory. */
const replicaDirs = { process: "replicas", docker: "docker" };

/** Long enough for an idle agent server to write its state down. */
const endGraceMs = 10_000;

async function endReplicasOf(
  other: keyof typeof replicaDirs,
  config: ComputeConfig,
  ground: ComputeGround,
): Promise<void> {
  const directory = path.join(config.dataDir, replicaDirs[other]);
  // Not there: it was never used, or ended by an earlier start.
  if ((await readdir(directory).catch(() => null)) === null) return;
  const signal = AbortSignal.timeout(4 * endGraceMs);
  let compute: Compute | null = null;
  try {
    compute = (await open({ ...config, compute: other }, ground)) as Compute;
    const left = await compute.observe(signal);
    if (left.length > 0)
      ground.logger.warn({ compute: other, replicas: left.length }, "replicas of another compute end");
    await compute.removeAll({ graceMs: endGraceMs, signal });
    await rm(directory, { recursive: true, force: true });
  } catch (error) {
    ground.logger.warn({ compute: other, error: describeError(error) }, "replicas of another compute may run still");
  } finally {
    await compute?.close();
  }
}

/** Loaded only when it is used. */
async function open(
  config: ComputeConfig,
  { installationId, imageNames, logger }: ComputeGround,
): Promise<Compute | (Compute & ReplicaLogs) | null> {
  switch (config.compute) {
    case "process": {
      const { openProcessCompute } = await import("../compute/process/process-compute.ts");
      return openProcessCompute({ dataDir: config.dataDir, logger, nodePath: process.execPath });
    }
    case "docker": {
      const { openDockerCompute } = await import("../compute/docker/docker-compute.ts");
      return openDockerCompute({
        host: config.dockerHost,
        dataDir: config.dataDir,
        installationId,
        logger,
        isRootReadOnly: config.dockerReadOnlyRoot,
        imagesBytesMax: config.dockerImagesMaxGib * 1024 ** 3,
        ...(imageNames === undefined ? operatorsRegistries(config) : imagesOf(imageNames)),
      });
    }
    case "simulated": {
      const { openSimulatedCompute } = await import("../compute/simulated.ts");
      return openSimulatedCompute({ seed: config.simulatedSeed });
    }
    case "kubernetes":
    case "none":
      return null;
  }
}

/** Beside a server: also those that are pushed to it. */
const imagesOf = (names: ImageNames) => ({
  credentialOf: (uri: string) => names.credentialOf(uri),
  currentUriOf: (uri: string) => names.currentUriOf(uri),
});

function operatorsRegistries({ registryAuthFile: file }: ComputeConfig) {
  if (file === undefined) return {};
  return {
    credentialOf: async (uri: string) => {
      const { readRegistryCredential } = await import("../compute/docker/images/registry-auth.ts");
      return readRegistryCredential(file, uri);
    },
  };
}

/** What builds make, so that this compute can run it. */
export function buildTargetOf(config: Config, installationId: string): BuildTarget {
  if (config.compute !== "docker") return { kind: "directory" };
  const { dockerHost: host, nodeImage, pythonImage, buildMemoryMib: memoryMib, buildCpuCores: cpuCores } = config;
  const { registryAuthFile = null } = config;
  return { kind: "image", host, installationId, nodeImage, pythonImage, registryAuthFile, memoryMib, cpuCores };
}
