import path from "node:path";
import type { FastifyInstance } from "fastify";
import { createListenerClient } from "../client/listener-client.ts";
import type { Compute } from "../compute/compute.ts";
import type { Traffic } from "../gateway/route.ts";
import { createListener } from "../listener/listener.ts";
import type { Logger } from "../telemetry/log.ts";
import { inProcessSend } from "./listener-transport.ts";
import { version } from "./version.ts";

export interface RunningListener {
  /** Agents go on running. */
  stop(): Promise<void>;
  /** Stops every agent of this installation; the next start brings them up again. */
  stopReplicas(): Promise<void>;
}

/** Long enough for an idle agent server to write its state down. */
const stopGraceMs = 10_000;

/** The listener inside this server: the same as a remote one, with a transport that needs no socket. */
export async function startListener(parts: {
  compute: Compute;
  api: FastifyInstance;
  gateway: Traffic;
  logger: Logger;
  listenerKey: string;
  dataDir: string;
  /** The session is taken over at once after a crash of the same installation (decision 0007). */
  installationId: string;
}): Promise<RunningListener> {
  const { compute, api, gateway, logger, listenerKey, dataDir } = parts;
  const listener = createListener({
    client: createListenerClient(inProcessSend(api, listenerKey)),
    compute,
    traffic: gateway,
    logger,
    instanceId: parts.installationId,
    version,
    logCursorsPath: path.join(dataDir, "log-cursors.json"),
  });
  listener.start();
  let stopped: Promise<void> | undefined;
  const stopListener = () => {
    stopped ??= listener.stop();
    return stopped;
  };
  return {
    async stop() {
      await stopListener();
      await compute.close();
    },
    async stopReplicas() {
      await stopListener();
      const signal = AbortSignal.timeout(4 * stopGraceMs);
      const replicas = await compute.observe(signal);
      await Promise.all(replicas.map(({ replicaId }) => compute.remove(replicaId, { graceMs: stopGraceMs, signal })));
    },
  };
}
