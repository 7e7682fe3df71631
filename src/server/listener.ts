import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import { createListenerClient } from "../client/listener-client.ts";
import type { Compute } from "../compute/compute.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { createListener } from "../listener/listener.ts";
import { replicaFleet } from "../listener/replicas/replica-fleet.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Traces } from "../telemetry/traces.ts";
import { inProcessSend, tracedSend } from "./listener-transport.ts";
import { version } from "./version.ts";

export interface RunningListener {
  /** Resolves once every deployment has its route again, at the latest after `routedTimeoutMs`. */
  routed(): Promise<void>;
  /** Agents go on running. */
  stop(): Promise<void>;
  /** Stops every agent of this installation; the next start brings them up again. */
  stopReplicas(): Promise<void>;
}

/** Long enough for an idle agent server to write its state down. */
const stopGraceMs = 10_000;

/** Simulated replicas cost this machine nothing while they start. */
export const simulatedLimits = { startsMax: 256 };

/** Reading assignments and looking at all replicas takes 0.1 s; a database that is slow must not keep the API away. */
const routedTimeoutMs = 3_000;

/** The listener inside this server: the same as a remote one, with a transport that needs no socket. */
export async function startListener(parts: {
  compute: Compute;
  api: FastifyInstance;
  gateway: Gateway;
  logger: Logger;
  traces: Traces | null;
  listenerKey: string;
  dataDir: string;
  scaleDownAfterMs: number;
  /** The session is taken over at once after a crash of the same installation (decision 0007). */
  installationId: string;
}): Promise<RunningListener> {
  const { compute, api, gateway, logger, traces, listenerKey, dataDir } = parts;
  const fleet = replicaFleet({
    compute,
    traffic: gateway,
    limits: compute.type === "simulated" ? simulatedLimits : {},
    scaleDownAfterMs: parts.scaleDownAfterMs,
  });
  const options = {
    client: createListenerClient(tracedSend(inProcessSend(api, listenerKey), traces)),
    logger,
    traces,
    instanceId: parts.installationId,
    version,
    logCursorsPath: path.join(dataDir, "log-cursors.json"),
  };
  const listener = createListener(options, fleet);
  listener.start();
  let stopped: Promise<void> | undefined;
  const stopListener = () => {
    stopped ??= listener.stop();
    return stopped;
  };
  return {
    async routed() {
      const end = performance.now() + routedTimeoutMs;
      while (performance.now() < end) {
        const { isListed, deployments } = listener.health();
        const routes = Object.values(gateway.health().routes).reduce((sum, count) => sum + count, 0);
        if (isListed && routes >= deployments) return;
        await sleep(10);
      }
    },
    async stop() {
      await stopListener();
      await compute.close();
    },
    async stopReplicas() {
      await stopListener();
      await compute.removeAll({ graceMs: stopGraceMs, signal: AbortSignal.timeout(4 * stopGraceMs) });
    },
  };
}
