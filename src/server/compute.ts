import type { Compute, ReplicaLogs } from "../compute/compute.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Config } from "./config.ts";

/** The driver the operator chose; null: this server runs no agents itself. Loaded only when it is used. */
export async function openCompute(config: Config, logger: Logger): Promise<Compute | (Compute & ReplicaLogs) | null> {
  switch (config.compute) {
    case "process": {
      const { openProcessCompute } = await import("../compute/process/process-compute.ts");
      return openProcessCompute({ dataDir: config.dataDir, logger, nodePath: process.execPath });
    }
    case "simulated": {
      const { openSimulatedCompute } = await import("../compute/simulated.ts");
      return openSimulatedCompute({ seed: config.simulatedSeed });
    }
    case "none":
      return null;
  }
}
