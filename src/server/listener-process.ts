import { mkdir, readFile } from "node:fs/promises";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { createListenerClient, httpSend, httpStreams } from "../client/listener-client.ts";
import type { Compute } from "../compute/compute.ts";
import { agentPort } from "../compute/docker/replicas/container.ts";
import { createGateway, type Gateway } from "../gateway/gateway.ts";
import { createListener } from "../listener/listener.ts";
import { replicaFleet } from "../listener/replicas/replica-fleet.ts";
import { lockDirectory } from "../store/engine/embedded/directory-lock.ts";
import type { Logger } from "../telemetry/log.ts";
import { Closing } from "./closing.ts";
import { startClusterReplica } from "./cluster-replica.ts";
import { openCompute } from "./compute.ts";
import { createHttpServer, type HttpServer } from "./http-server.ts";
import { installationIdOf } from "./installation.ts";
import { urlOf } from "./listen.ts";
import { simulatedLimits } from "./listener.ts";
import type { ListenerConfig } from "./listener-config.ts";
import { httpIdentify, httpUpgrades, tracedSend } from "./listener-transport.ts";
import { openTraces } from "./otel.ts";
import { MemoryReleaser } from "./tuning/release-memory.ts";
import { replicaTunnels } from "./tunnel-targets.ts";
import { version } from "./version.ts";

export interface ListenerProcess {
  /** Base of `/ok`, `/ready`, and the agents under `/d/<slug>/`. */
  url: string;
  /** Stops the listener. Agents keep running. */
  close(): Promise<void>;
}

/**
 * Starts a data plane of its own process: a listener, its compute and its own gateway, connected to a control plane over HTTP.
 * @throws Error naming the part and the reason: directory in use, port taken, engine unreachable.
 */
export async function startListenerProcess(
  config: ListenerConfig,
  { logger }: { logger: Logger },
): Promise<ListenerProcess> {
  const closing = new Closing(logger);
  try {
    await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
    // Takes the server's lock too: a server and a listener on one directory would each claim the replicas there.
    for (const name of ["server.lock", "listener.lock"]) {
      const lock = await lockDirectory(path.join(config.dataDir, name), logger);
      closing.add("data directory", () => lock.release());
    }
    const instanceId = await installationIdOf(config.dataDir);
    const traces = await openTraces(config, { name: "pierhead-listener", instanceId, logger });
    closing.add("traces", async () => traces?.close());
    const send = tracedSend(httpSend(config.url, keyOf(config)), traces);
    const identify = httpIdentify(config.url);
    const gateway = createGateway({
      ...{ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger, identify },
      ...(config.compute === "docker" && { agentPort }),
    });
    closing.add("gateway", () => gateway.close({ graceMs: 2_000 }));
    let isReady = () => false;
    const server = serve(gateway, () => isReady());
    const url = await bind(server.server, config);
    closing.add("sockets", () => server.end());
    const common = {
      client: createListenerClient(send, httpStreams(config.url, keyOf(config))),
      logger,
      traces,
      version,
      instanceId,
      logCursorsPath: path.join(config.dataDir, "log-cursors.json"),
    };
    if (config.compute === "kubernetes") {
      const replica = await startClusterReplica(config, common, httpUpgrades(config.url, keyOf(config)));
      closing.add("listener", () => replica.stop());
      isReady = replica.isReady;
    } else {
      const compute = (await openCompute(config, { installationId: instanceId, logger })) as Compute;
      closing.add("compute", () => compute.close());
      const limits = compute.type === "simulated" ? simulatedLimits : {};
      const facts = { agents_url: config.agentsUrl ?? `${url}/d/{slug}` };
      const { scaleDownAfterMs } = config;
      const fleet = replicaFleet({ compute, traffic: gateway, limits, scaleDownAfterMs });
      const tunnels = { open: httpUpgrades(config.url, keyOf(config)), targets: replicaTunnels(compute, gateway) };
      const listener = createListener({ ...common, facts, tunnels }, fleet);
      listener.start();
      closing.add("listener", () => listener.stop());
      isReady = () => listener.health().isListed || listener.health().isDrained;
    }
    closing.add("waiting requests", async () => gateway.stopAccepting());
    if (!config.tuningOff.has("memory-release")) {
      const memory = new MemoryReleaser();
      closing.add("memory", async () => memory.stop());
    }
    logger.info({ url, control_plane: config.url, compute: config.compute, version }, "listener started");
    return { url, close: () => closing.run() };
  } catch (error) {
    await closing.run();
    throw error;
  }
}

/** Reads the key file on each call, so that a replaced key takes effect at once. */
function keyOf({ key, keyFile }: ListenerConfig): string | (() => Promise<string>) {
  return keyFile === undefined ? (key as string) : async () => (await readFile(keyFile, "utf8")).trim();
}

/** Answers `/ok` while the process runs, and `/ready` once the listener has received all assignments. */
function serve(gateway: Gateway, isReady: () => boolean): HttpServer {
  return createHttpServer(gateway, {
    answer(request, response) {
      if (gateway.matches(request)) return gateway.handle(request, response);
      const isFine = request.url === "/ok" || (request.url === "/ready" && isReady());
      const status = isFine ? 200 : request.url === "/ready" ? 503 : 404;
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ ok: isFine }));
    },
    isForAgent: (request) => gateway.matches(request),
  });
}

function bind(server: Server, { host, port }: ListenerConfig): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => resolve(urlOf(host, (server.address() as AddressInfo).port)));
  });
}
