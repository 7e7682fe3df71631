import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createListenerClient, httpSend } from "../../src/client/listener-client.ts";
import type { Compute } from "../../src/compute/compute.ts";
import { type Faults, openSimulatedCompute, SimulatedWorld } from "../../src/compute/simulated.ts";
import type { DeploymentReport, Engine, RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { createGateway, type Gateway, gatewayServerOptions } from "../../src/gateway/gateway.ts";
import { createListener, type Listener, type ListenerOptions } from "../../src/listener/listener.ts";
import { replicaFleet } from "../../src/listener/replicas/replica-fleet.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { ControlPlane, serveControlPlane } from "./control-plane.ts";

/** A listener process: a listener with its own gateway, on a world of replicas that outlives both. */
export interface Process {
  listener: Listener;
  gateway: Gateway;
  /** Sends a request through the gateway. `revision` is the one that the gateway names in its answer. */
  request(slug: string, path?: string): Promise<{ status: number; revision: string | null; text: string }>;
  stop(): Promise<void>;
}

type ProcessOptions = Partial<ListenerOptions> & { compute?: Compute };

export interface Site extends AsyncDisposable {
  controlPlane: ControlPlane;
  world: SimulatedWorld;
  /** Lets the agent server answer requests for `/slow`, both waiting and future ones. */
  answerSlow(): void;
  startProcess(options?: ProcessOptions): Promise<Process>;
  /** Waits until a report of a deployment satisfies `holds`: the last one or a later one. */
  reported(deploymentId: string, holds: (report: DeploymentReport) => boolean): Promise<DeploymentReport>;
  replicas(): string[];
}

export async function startSite(options: { faults?: Partial<Faults> } = {}): Promise<Site> {
  const controlPlane = new ControlPlane();
  const served = await serveControlPlane(controlPlane);
  const slow = Promise.withResolvers<void>();
  const agent = createServer(async (request, response) => {
    if (request.url === "/slow") await slow.promise;
    response.end(`answer to ${request.url}`);
  });
  agent.listen(0, "127.0.0.1");
  await once(agent, "listening");
  const address = { host: "127.0.0.1", port: (agent.address() as AddressInfo).port };
  const world = new SimulatedWorld({ seed: 7, faults: options.faults ?? {}, address });
  const processes = new Set<Process>();

  return {
    controlPlane,
    world,
    answerSlow: slow.resolve,
    async startProcess(parts: ProcessOptions = {}) {
      const process = await startProcess(served.url, world, parts);
      processes.add(process);
      return process;
    },
    reported: (deploymentId: string, holds: (report: DeploymentReport) => boolean) =>
      nextReport(controlPlane, deploymentId, holds),
    replicas: () => world.snapshot().map(({ revisionId, phase }) => `${revisionId} ${phase}`),
    async [Symbol.asyncDispose]() {
      slow.resolve();
      for (const process of processes) await process.stop();
      await served.close();
      agent.closeAllConnections();
      agent.close();
    },
  };
}

async function startProcess(url: string, world: SimulatedWorld, parts: ProcessOptions): Promise<Process> {
  const logger = createLogger("silent");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const server = createServer(gatewayServerOptions, (request, response) => gateway.handle(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { compute = openSimulatedCompute({ world }), ...changed } = parts;
  const client = createListenerClient(httpSend(url, "listener-key"));
  const options = { client, logger, instanceId: randomUUID(), version: "0.0.0", ...changed };
  const listener = createListener(options, replicaFleet({ compute, traffic: gateway, ...changed }));
  listener.start();
  let isStopped = false;
  return {
    listener,
    gateway,
    async request(slug, path = "/hello") {
      const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/d/${slug}${path}`);
      return {
        status: response.status,
        revision: response.headers.get("x-pierhead-revision"),
        text: await response.text(),
      };
    },
    async stop() {
      if (isStopped) return;
      isStopped = true;
      await listener.stop();
      await compute.close();
      await gateway.close();
      server.closeAllConnections();
      server.close();
    },
  };
}

export function newRun(
  parts: Partial<RevisionRun> & { rollout?: "rolling" | "handover"; engine?: Engine } = {},
): RevisionRun {
  const { rollout = "rolling", engine = "own", ...others } = parts;
  return {
    revision_id: randomUUID(),
    artifact: { kind: "image", digest: "sha256:0", uri: "example/agent:1", health_path: "/ok", rollout, engine },
    env: {},
    secret_set_id: null,
    min_replicas: 1,
    max_replicas: 1,
    cpu_limit_cores: 1,
    memory_limit_mib: 512,
    start_timeout_ms: 60_000,
    drain_timeout_ms: 20_000,
    ...others,
  };
}

/** Deploys a first revision and waits until it is settled. */
export async function deployed(site: Site, run: RevisionRun = newRun(), parts: { idle_after_ms?: number } = {}) {
  const deployment_id = randomUUID();
  const { slug } = site.controlPlane.assign({ deployment_id, target: run, ...parts });
  await settled(site, deployment_id, run.revision_id);
  return { deployment_id, slug, run };
}

/** Waits until a revision is target and serving, and the listener has reported so. */
export async function settled(site: Site, deploymentId: string, revisionId: string): Promise<void> {
  await eventually(
    () => [site.controlPlane.assignments.get(deploymentId), site.controlPlane.reports.get(deploymentId)] as const,
    ([assignment, report]) =>
      assignment?.serving?.revision_id === revisionId &&
      report?.generation === assignment.generation &&
      report.serving_revision_id === revisionId &&
      report.target_phase === "ready",
  );
}

/** Watches reports as they arrive, because polling could miss one that is replaced within a millisecond. */
async function nextReport(
  { reports, watchers }: ControlPlane,
  deploymentId: string,
  holds: (report: DeploymentReport) => boolean,
): Promise<DeploymentReport> {
  let found = reports.get(deploymentId);
  if (found !== undefined && holds(found)) return found;
  found = undefined;
  const watch = (report: DeploymentReport) => {
    if (found === undefined && report.deployment_id === deploymentId && holds(report)) found = report;
  };
  watchers.add(watch);
  try {
    return (await eventually(
      () => found,
      (report) => report !== undefined,
    )) as DeploymentReport;
  } catch {
    throw new Error(`never reported, last report ${JSON.stringify(reports.get(deploymentId))}`);
  } finally {
    watchers.delete(watch);
  }
}

/** Polls until `holds` returns true. Fails with the last state after the time limit. */
export async function eventually<T>(
  read: () => T | Promise<T>,
  holds: (state: T) => boolean,
  timeoutMs = 30_000,
): Promise<T> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const state = await read();
    if (holds(state)) return state;
    if (Date.now() > end) throw new Error(`never held, last state ${JSON.stringify(state)}`);
    await sleep(5);
  }
}

/** Sends requests one after the other until `end` is called. */
export function keepAsking(process: Process, slug: string) {
  const answers: Awaited<ReturnType<Process["request"]>>[] = [];
  let isEnding = false;
  const asking = (async () => {
    while (!isEnding) {
      answers.push(await process.request(slug));
      await sleep(1);
    }
    answers.push(await process.request(slug));
  })();
  return {
    async end() {
      isEnding = true;
      await asking;
      return answers;
    },
    [Symbol.dispose]() {
      isEnding = true;
      asking.catch(() => {});
    },
  };
}
