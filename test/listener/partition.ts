import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../src/base/clock.ts";
import { createListenerClient, httpSend, httpStreams } from "../../src/client/listener-client.ts";
import { openSimulatedCompute, SimulatedWorld } from "../../src/compute/simulated.ts";
import { createGateway } from "../../src/gateway/gateway.ts";
import { createListener } from "../../src/listener/listener.ts";
import { replicaFleet } from "../../src/listener/replicas/replica-fleet.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { startTlsDoor, type TlsDoor } from "../support/tls-proxy.ts";
import { VirtualClock } from "./virtual-world.ts";

/** A minute of the listener takes 0.6 s here: a partition of 10 minutes takes 6 s, and a call may take 0.3 s. */
const compression = 100;

const beganAtMs = Date.now();

/** Accelerated real time: timers fire `compression` times earlier. */
class FastClock implements Clock {
  readonly #random: () => number;
  constructor(random: () => number) {
    this.#random = random;
  }
  now = (): number => beganAtMs + (Date.now() - beganAtMs) * compression;
  monotonicMs = this.now;
  setTimeout = (run: () => void, delayMs: number): (() => void) => {
    const timer = setTimeout(run, Math.min(delayMs / compression, 2 ** 31 - 1));
    return () => clearTimeout(timer);
  };
  random = (): number => this.#random();
}

export interface PartitionWorld extends AsyncDisposable {
  pierhead: TestServer;
  /** The HTTPS endpoint that listeners connect to. */
  endpoint: TlsDoor;
  /** The TCP connection to it, which tests cut. */
  proxy: TcpProxy;
  world: SimulatedWorld;
  starts: Map<string, number>;
  listenerId: string;
  key: string;
}

export async function openPartitionWorld(): Promise<PartitionWorld> {
  const key = `ph_${"0".repeat(12)}_${"k".repeat(43)}`;
  const pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none", PIERHEAD_LISTENER_KEY: key });
  const endpoint = await startTlsDoor(pierhead.url);
  const proxy = await startTcpProxy(endpoint.url);
  const world = new SimulatedWorld({ seed: 5, clock: new FastClock(() => 0.5) });
  const starts = new Map<string, number>();
  const start = world.start.bind(world);
  world.start = (spec) => {
    starts.set(spec.revisionId, (starts.get(spec.revisionId) ?? 0) + 1);
    start(spec);
  };
  const { rows } = await pierhead.server.db.query<{ id: string }>(sql`select id from listeners where builtin`);
  return {
    ...{ pierhead, endpoint, proxy, world, starts, key },
    listenerId: rows[0]?.id as string,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await endpoint[Symbol.asyncDispose]();
      await pierhead[Symbol.asyncDispose]();
    },
  };
}

function startListener({ world, key }: PartitionWorld, url: string, random: () => number, isComputeShared: boolean) {
  const clock = new FastClock(random);
  const logger = createLogger("silent");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const compute = openSimulatedCompute({ world });
  const client = createListenerClient(httpSend(url, key), random() < 0.7 ? httpStreams(url, key) : undefined);
  const options = { clock, logger, instanceId: randomUUID(), version: "0.0.0", isComputeShared };
  const listener = createListener({ client, ...options }, replicaFleet({ compute, traffic: gateway }));
  listener.start();
  return {
    listener,
    async stop() {
      await listener.stop();
      await compute.close();
      await gateway.close();
    },
  };
}

/**
 * One seeded history with a partition of 1 s to 10 min in the middle. Running replicas stay untouched, new assignments wait,
 * a replaced instance no longer acts, and afterwards the state is as desired.
 */
export async function livePartition(site: PartitionWorld, seed: number): Promise<string> {
  const { pierhead, proxy, world, starts } = site;
  const { client } = pierhead;
  const dice = new VirtualClock(seed);
  const durationMs = Math.exp(dice.random() * Math.log(600)) * 1_000;
  const kind = dice.chance(0.5) ? "blackhole" : "reset";
  // No instance gets a session before the previous lease is over.
  const hasRival = dice.chance(0.6) && durationMs > 35_000;
  const works = { patch: dice.chance(0.5), create: dice.chance(0.5), remove: dice.chance(0.3) };
  const history = `seed ${seed}: ${kind} ${(durationMs / 1_000).toFixed(1)} s, ${JSON.stringify({ hasRival, ...works })}`;
  const create = async () => {
    const made = await client.createDeployment({
      body: {
        name: `p-${seed}-${randomUUID().slice(0, 8)}`,
        source: "external_docker",
        source_config: {},
        source_revision_config: { image_uri: "127.0.0.1:1/agent:1" },
      },
    });
    return { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  };
  const deployed = async (ids: { deployment_id: string; revision_id: string }) => {
    const revision = await client.waitForRevision(ids);
    assert.equal(revision.status, "DEPLOYED", `${history}: ${revision.status_message}`);
  };
  proxy.become("none");
  await freeLease(site);
  const first = startListener(site, proxy.url.replace("http:", "https:"), () => dice.random(), hasRival);
  let rival: ReturnType<typeof startListener> | undefined;
  try {
    const kept = [await create(), await create()];
    await Promise.all(kept.map(deployed));
    const replicas = () => world.snapshot().map(({ replicaId, phase }) => `${replicaId} ${phase}`);
    const before = replicas().toSorted();

    proxy.become(kind);
    const changed = [...kept];
    if (works.patch) {
      const { deployment_id } = kept[0] as { deployment_id: string };
      const body = { source_revision_config: { image_uri: `127.0.0.1:1/agent:${seed}` } };
      const { latest_revision_id } = await client.patchDeployment({ deployment_id, body });
      changed[0] = { deployment_id, revision_id: latest_revision_id as string };
    }
    if (works.create) changed.push(await create());
    const removed = works.remove ? changed.splice(1, 1)[0] : undefined;
    if (removed !== undefined) await client.deleteDeployment({ deployment_id: removed.deployment_id });
    await sleep(durationMs / compression);
    assert.deepEqual(replicas().toSorted(), before, `${history}: running replicas are untouched`);
    if (hasRival) {
      await freeLease(site);
      rival = startListener(site, site.endpoint.url, () => dice.random(), hasRival);
      await eventually(
        () => rival?.listener.health().isListed,
        (isListed) => isListed === true,
      );
    }
    proxy.become("none");
    await Promise.all(changed.map(deployed));
    if (removed !== undefined) await gone(pierhead, removed.deployment_id);
    const desired = changed.map(({ revision_id }) => `${revision_id} ready`).toSorted();
    const running = () => world.snapshot().map(({ revisionId, phase }) => `${revisionId} ${phase}`);
    await eventually(running, (states) => states.toSorted().join() === desired.join(), {
      what: `${history}: ${desired}`,
    });
    for (const { revision_id } of [...kept, ...changed]) {
      assert.ok(
        (starts.get(revision_id) ?? 0) <= 1,
        `${history}: ${revision_id} was started ${starts.get(revision_id)} times`,
      );
    }
    if (hasRival) {
      const isLeading = () => first.listener.health().isLeading;
      await eventually(isLeading, (leads) => !leads, { what: `${history}: the stale instance steps down` });
    }
    for (const { deployment_id } of changed) await client.deleteDeployment({ deployment_id });
    for (const { deployment_id } of changed) await gone(pierhead, deployment_id);
    assert.deepEqual(world.snapshot(), [], `${history}: nothing is left`);
    return history;
  } finally {
    proxy.become("none");
    for await (const { id } of client.all("listDeployments", {})) {
      await client.deleteDeployment({ deployment_id: id }).catch(() => {});
    }
    await first.stop();
    await rival?.stop();
  }
}

/** Ends the lease of the previous instance, because the control plane's clock cannot be accelerated. */
async function freeLease({ pierhead, listenerId }: PartitionWorld): Promise<void> {
  await pierhead.server.db.query(sql`update listeners set lease_until = null where id = ${listenerId}`);
}

async function gone({ client }: TestServer, deploymentId: string): Promise<void> {
  await eventually(
    () =>
      client.getDeployment({ deployment_id: deploymentId }).then(
        () => false,
        () => true,
      ),
    (isGone) => isGone,
    { what: `${deploymentId} gone` },
  );
}
