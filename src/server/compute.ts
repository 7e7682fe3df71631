import type { BuildTarget } from "../builds/build.ts";
import type { Compute, ReplicaLogs } from "../compute/compute.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Config } from "./config.ts";
import type { ImageNames } from "./registry.ts";

/** What decides how agents run, in a server and in a listener of its own. */
type ComputeConfig = Pick<
  Config,
  "dataDir" | "dockerHost" | "dockerReadOnlyRoot" | "dockerImagesMaxGib" | "registryAuthFile" | "simulatedSeed"
> & {
  compute: Config["compute"] | "kubernetes";
};

/** The driver the operator chose; null: this server runs no agents itself. Loaded only when it is used. */
export async function openCompute(
  config: ComputeConfig,
  { installationId, imageNames, logger }: { installationId: string; imageNames?: ImageNames; logger: Logger },
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
  placeOf: (uri: string) => names.placeOf(uri),
});

function operatorsRegistries({ registryAuthFile: file }: ComputeConfig) {
  if (file === undefined) return {};
  return {
    credentialOf: async (uri: string) => {
      const { readRegistryCredential } = await import("../compute/docker/registry-auth.ts");
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
