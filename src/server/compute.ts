import type { BuildTarget } from "../builds/build.ts";
import type { Compute, ReplicaLogs } from "../compute/compute.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Config } from "./config.ts";
import type { ImageNames } from "./registry.ts";

/** What decides how agents run, in a server and in a listener of its own. */
type ComputeConfig = Pick<
  Config,
  "dataDir" | "dockerHost" | "dockerReadOnlyRoot" | "dockerImagesMaxGib" | "simulatedSeed"
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
        ...(imageNames && {
          credentialOf: (uri: string) => imageNames.credentialOf(uri),
          placeOf: (uri: string) => imageNames.placeOf(uri),
        }),
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

/** What builds make, so that this compute can run it. */
export function buildTargetOf(config: Config, installationId: string): BuildTarget {
  if (config.compute !== "docker") return { kind: "directory" };
  const { dockerHost: host, nodeImage, pythonImage, buildMemoryMib: memoryMib, buildCpuCores: cpuCores } = config;
  const { registryAuthFile = null } = config;
  return { kind: "image", host, installationId, nodeImage, pythonImage, registryAuthFile, memoryMib, cpuCores };
}
