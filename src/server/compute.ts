import { readdir, rm } from "node:fs/promises";
import path from "node:path";
import type { BaseImages, BuildTarget } from "../builds/build.ts";
import type { Compute, ReplicaLogs } from "../compute/compute.ts";
import { describeError, type Logger } from "../telemetry/log.ts";
import type { Config } from "./config.ts";
import type { ImageNames } from "./registry.ts";

/** Settings that determine how agents run, for a server and for a listener process. */
type ComputeConfig = Pick<
  Config,
  | "dataDir"
  | "dockerHost"
  | "dockerReadOnlyRoot"
  | "dockerDiskMib"
  | "dockerImagesMaxGib"
  | "registryAuthFile"
  | "simulatedSeed"
> & {
  compute: Config["compute"] | "kubernetes";
};

interface ComputeContext {
  installationId: string;
  imageNames?: ImageNames;
  isPublic?: boolean;
  logger: Logger;
}

/**
 * Opens the configured compute driver, or returns null when this server runs no agents. Stops replicas of the previously
 * configured driver, because no server would observe or stop them any more.
 */
export async function openCompute(
  config: ComputeConfig,
  context: ComputeContext,
): Promise<Compute | (Compute & ReplicaLogs) | null> {
  const compute = await open(config, context);
  if (config.compute === "process") await endReplicasOf("docker", config, context);
  if (config.compute === "docker") await endReplicasOf("process", config, context);
  return compute;
}

/** Directories below the data directory that belong to the replicas of a driver. The first one is there if the driver was used. */
const replicaDirs = { process: ["replicas", "tmp"], docker: ["docker"] } as const;

/** An idle agent server needs less than this to save its state. */
const endGraceMs = 10_000;

async function endReplicasOf(
  other: keyof typeof replicaDirs,
  config: ComputeConfig,
  context: ComputeContext,
): Promise<void> {
  const [directory, ...others] = replicaDirs[other].map((name) => path.join(config.dataDir, name)) as [string];
  // No directory: the driver was never used, or an earlier start has stopped its replicas.
  if ((await readdir(directory).catch(() => null)) === null) return;
  const signal = AbortSignal.timeout(4 * endGraceMs);
  let compute: Compute | null = null;
  try {
    compute = (await open({ ...config, compute: other }, context)) as Compute;
    const found = await compute.observe(signal);
    if (found.length > 0)
      context.logger.warn({ compute: other, replicas: found.length }, "stopping replicas of the previous compute");
    await compute.removeAll({ graceMs: endGraceMs, signal });
    for (const left of [...others, directory]) await rm(left, { recursive: true, force: true });
  } catch (error) {
    context.logger.warn(
      { compute: other, error: describeError(error) },
      "replicas of the previous compute may still run",
    );
  } finally {
    await compute?.close();
  }
}

/** Opens a driver. Imports only the one that is used. */
async function open(
  config: ComputeConfig,
  { installationId, imageNames, isPublic = false, logger }: ComputeContext,
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
        isPublic,
        isRootReadOnly: config.dockerReadOnlyRoot,
        diskLimitMib: config.dockerDiskMib,
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

/** Credentials and names of a server's images, including those pushed to its own registry. */
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

/** Returns the images on which generated Dockerfiles are based. */
export const baseImagesOf = ({ nodeImage, pythonImage }: Config, installationId: string): BaseImages => ({
  installationId,
  nodeImage,
  pythonImage,
});

/** Returns the kind of build output that the configured compute can run. */
export function buildTargetOf(config: Config, installationId: string): BuildTarget {
  if (config.compute !== "docker") return { kind: "directory" };
  const { dockerHost: host, nodeImage, pythonImage, buildMemoryMib: memoryMib, buildCpuCores: cpuCores } = config;
  const { registryAuthFile = null, allowPrivateNetwork: allowsPrivateRegistries } = config;
  const images = { nodeImage, pythonImage, registryAuthFile, allowsPrivateRegistries };
  return { kind: "image", host, installationId, ...images, memoryMib, cpuCores };
}
