import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createListenerClient } from "../client/listener-client.ts";
import type { Compute } from "../compute/compute.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { createListener } from "../listener/listener.ts";
import { replicaFleet } from "../listener/replicas/replica-fleet.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Traces } from "../telemetry/traces.ts";
import { type CallApi, inProcessSend, tracedSend } from "./listener-transport.ts";
import { version } from "./version.ts";

export interface RunningListener {
  /** Resolves once every deployment has a route again, or after `routedTimeoutMs`. */
  routed(): Promise<void>;
  /** Stops the listener. Agents keep running. */
  stop(): Promise<void>;
  /** Stops every agent of this installation. The next start runs them again. */
  stopReplicas(): Promise<void>;
}

/** An idle agent server needs less than this to save its state. */
const stopGraceMs = 10_000;

/** Simulated replicas use no resources of this machine while they start. */
export const simulatedLimits = { startsMax: 256 };

/** Reading assignments and observing all replicas takes 0.1 s. A slow database must not keep the API from starting. */
const routedTimeoutMs = 3_000;

/** Starts the listener inside this server. It is the same code as a remote listener, with a transport without a socket. */
export async function startListener(parts: {
  compute: Compute;
  callApi: CallApi;
  gateway: Gateway;
  logger: Logger;
  traces: Traces | null;
  listenerKey: string;
  dataDir: string;
  scaleDownAfterMs: number;
  /** Address template of the agents on a domain of their own; null: they answer below this server's own address. */
  agentsUrl: string | null;
  /** Lets the listener take over its session right after a crash of the same installation (decision 0007). */
  installationId: string;
}): Promise<RunningListener> {
  const { compute, callApi, gateway, logger, traces, listenerKey, dataDir } = parts;
  const fleet = replicaFleet({
    compute,
    traffic: gateway,
    limits: compute.type === "simulated" ? simulatedLimits : {},
    scaleDownAfterMs: parts.scaleDownAfterMs,
  });
  const options = {
    client: createListenerClient(tracedSend(inProcessSend(callApi, listenerKey), traces)),
    logger,
    traces,
    instanceId: parts.installationId,
    version,
    facts: parts.agentsUrl === null ? {} : { agents_url: parts.agentsUrl },
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
