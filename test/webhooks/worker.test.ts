import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import type { EventType } from "../../src/contract/logs/event.ts";
import { deliveryAttemptsMax } from "../../src/domain/webhook-schedule.ts";
import type { MailSettings } from "../../src/integrations/mail.ts";
import { type Db, openDatabase } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { EventFeed } from "../../src/store/events/event-feed.ts";
import { openSealer, type Sealer } from "../../src/store/secrets/seal.ts";
import { createOrganization, createWorkspace } from "../../src/store/tenants/tenants.ts";
import { createDeliveries, type DeliveryRow, listDeliveries } from "../../src/store/webhooks/webhook-deliveries.ts";
import {
  changeWebhook,
  createWebhook,
  readWebhook,
  replaceWebhookSecret,
  type WebhookSettings,
} from "../../src/store/webhooks/webhooks.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { WebhookWorker } from "../../src/webhooks/worker.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startReceiver } from "./receiver.ts";

const logger = createLogger("silent");
const masterKey = randomBytes(32);

interface World {
  db: Db;
  sealer: Sealer;
  owner: { organizationId: string; tenantId: string; actor: string };
  make(settings: Partial<WebhookSettings> & { url: string }): Promise<{ id: string; secret: string }>;
  /** Starts a server's worker. */
  work(settings?: {
    db?: Db;
    allowPrivateNetwork?: boolean;
    recordsAnswers?: boolean;
    mail?: MailSettings | null;
  }): Promise<AsyncDisposable & { stop(): Promise<void> }>;
}

async function makeWorld(db: Db): Promise<World> {
  const organizationId = await createOrganization(db, { name: randomUUID(), plan: "cloud" });
  const tenantId = await createWorkspace(db, { organizationId, name: "workspace" });
  const owner = { organizationId, tenantId, actor: "key:test" };
  const sealer = await openSealer(db, masterKey);
  const blank = { format: "standard" as const, description: null, types: null, deployment_ids: null, enabled: true };
  return {
    db,
    sealer,
    owner,
    async make(settings) {
      const { row, secret } = await createWebhook(db, sealer, owner, { ...blank, ...settings });
      return { id: row.id, secret };
    },
    async work({ db: own = db, allowPrivateNetwork = true, recordsAnswers = false, mail = null } = {}) {
      const feed = new EventFeed(own, logger);
      const settings = {
        owner: `${randomUUID()}:1`,
        allowPrivateNetwork,
        recordsAnswers,
        version: "0",
        consoleUrl: "https://pierhead.invalid",
        mail,
      };
      const worker = new WebhookWorker({ db: own, feed, sealer, logger, metrics: createMetrics(), settings });
      worker.start();
      const stop = async () => {
        await worker.stop();
        await feed.close();
      };
      return { stop, [Symbol.asyncDispose]: stop };
    },
  };
}

async function write(
  { db, owner }: World,
  event: { tenantId?: string; deploymentId?: string; kind?: EventType; data?: object } = {},
): Promise<void> {
  const { tenantId = owner.tenantId, deploymentId = randomUUID(), kind = "deployment.changed", data = {} } = event;
  await db.query(sql`insert into events (tenant_id, deployment_id, kind, data)
            values (${tenantId}, ${deploymentId}, ${kind}, ${JSON.stringify(data)})`);
  db.changes.wakeWatchers();
}

const log = ({ db }: World, id: string) => listDeliveries(db, id, { status: null, before: null, limit: 1_000 });

/** Makes the next attempt due now. */
async function makeDue({ db }: World): Promise<void> {
  await db.query(
    sql`update webhook_deliveries set next_attempt_at = now() where status = 'pending' and lease_owner is null`,
  );
  db.changes.wakeWatchers();
}

eachDatabase("receivers of one workspace that answer late do not delay the messages of another one", async (db) => {
  const [noisy, quiet] = [await makeWorld(db), await makeWorld(db)];
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  await using late = await startReceiver(async () => {
    await released;
    return { status: 204 };
  });
  await using prompt = await startReceiver(() => ({ status: 204 }));
  for (let count = 0; count < 50; count += 1) await noisy.make({ url: `${late.url}/${count}` });
  await quiet.make({ url: prompt.url });
  await using _worker = await noisy.work();
  try {
    for (let count = 0; count < 4; count += 1) await write(noisy);
    await eventually(
      () => late.received.length,
      (count) => count >= 20,
    );
    for (let count = 1; count <= 3; count += 1) {
      await write(quiet);
      await eventually(
        () => prompt.received.length,
        (received) => received === count,
        { timeoutMs: 5_000 },
      );
    }
  } finally {
    release();
  }
  await eventually(
    () => late.received.length,
    (count) => count === 200,
    { timeoutMs: 60_000 },
  );
});

eachDatabase(
  "delivers every event once, in order and signed, to the webhooks of its workspace that want it",
  async (db) => {
    const world = await makeWorld(db);
    await using receiver = await startReceiver(() => ({ status: 204 }));
    const other = await makeWorld(db);
    await write(world);
    const deploymentId = randomUUID();
    await db.query(
      sql`insert into listeners (id, compute_type, compute_id) values (${deploymentId}, 'simulated', 'x')`,
    );
    await db.query(sql`insert into deployments (id, tenant_id, listener_id, name, slug, source, source_config, source_revision_config, status)
            values (${deploymentId}, ${world.owner.tenantId}, ${deploymentId}, 'mine', 'mine', 'github', '{}', '{}', 'READY')`);
    const all = await world.make({ url: `${receiver.url}/all` });
    await world.make({ url: `${receiver.url}/some`, types: ["revision.status"], deployment_ids: [deploymentId] });
    await world.make({ url: `${receiver.url}/off`, enabled: false });
    await other.make({ url: `${receiver.url}/other` });
    await using _worker = await world.work();
    for (let i = 0; i < 40; i += 1) {
      await write(world, {
        kind: i % 2 === 0 ? "revision.status" : "deployment.status",
        data: { i },
        ...(i < 10 && { deploymentId }),
      });
    }
    await write(other, { tenantId: other.owner.tenantId, data: { i: "other" } });
    await eventually(
      () => receiver.received.length,
      (count) => count >= 46,
    );
    const at = (path: string) =>
      receiver.received.filter((one) => one.path === path).map(({ message }) => message.data.data.i);
    assert.deepEqual(
      at("/all"),
      Array.from({ length: 40 }, (_, i) => i),
    );
    assert.deepEqual(at("/some"), [0, 2, 4, 6, 8]);
    assert.deepEqual([at("/other"), at("/off")], [["other"], []]);
    const [first] = receiver.received.filter(({ path }) => path === "/all");
    assert.equal(first?.message.type, "revision.status");
    assert.equal(first?.message.data.deployment_name, "mine");
    assert.equal(first?.headers["user-agent"], "pierhead/0");
    const rows = await eventually(
      () => log(world, all.id),
      (found) => found.every(({ status }) => status === "delivered"),
    );
    assert.deepEqual(
      rows.map(({ attempts, response_status }) => [attempts, response_status]),
      Array(40).fill([1, 204]),
    );
  },
);

eachDatabase("retries a failed message with growing waits before later ones, and then continues", async (db) => {
  const world = await makeWorld(db);
  let fails = true;
  await using receiver = await startReceiver(() =>
    fails ? { status: 503, body: "busy".repeat(2_000) } : { status: 200, body: "ok" },
  );
  const webhook = await world.make({ url: receiver.url });
  await using _worker = await world.work({ recordsAnswers: true });
  for (let i = 0; i < 3; i += 1) await write(world, { data: { i } });
  const waits: number[] = [];
  for (let attempts = 1; attempts <= 4; attempts += 1) {
    const isOver = ([third, second, first]: DeliveryRow[]) =>
      first?.attempts === attempts &&
      Number(first.next_attempt_at) > Number(first.last_attempt_at) &&
      second?.attempts === 0 &&
      third?.attempts === 0;
    const rows = await eventually(() => log(world, webhook.id), isOver);
    const first = rows.at(-1);
    assert.equal(first?.response_text, "busy".repeat(256));
    waits.push((first?.next_attempt_at?.getTime() ?? 0) - (first?.last_attempt_at?.getTime() ?? 0));
    if (attempts === 4) fails = false;
    await makeDue(world);
  }
  await eventually(
    () => log(world, webhook.id),
    (found) => found.every(({ status }) => status === "delivered"),
  );
  assert.deepEqual(
    receiver.received.map(({ message }) => message.data.data.i),
    [0, 0, 0, 0, 0, 1, 2],
  );
  assert.equal(new Set(receiver.received.slice(0, 5).map(({ id }) => id)).size, 1);
  assert.ok(
    waits.every((wait, index) => index === 0 || wait > (waits[index - 1] ?? 0)),
    waits.join(),
  );
  assert.equal((await readWebhook(db, world.sealer, world.owner.tenantId, webhook.id)).failing_since, null);
});

eachDatabase("later messages overtake one that its receiver keeps rejecting", async (db) => {
  const world = await makeWorld(db);
  await using receiver = await startReceiver(({ message }) => ({ status: message.data.data.i === 0 ? 500 : 200 }));
  const webhook = await world.make({ url: receiver.url });
  await using _worker = await world.work();
  for (let i = 0; i < 3; i += 1) await write(world, { data: { i } });
  await eventually(
    async () => {
      await makeDue(world);
      return (await log(world, webhook.id)).map(({ status }) => status);
    },
    (statuses) => statuses.filter((status) => status === "delivered").length === 2,
  );
  const disliked = receiver.received.findIndex(({ message }) => message.data.data.i === 1);
  assert.ok(disliked >= 4);
  assert.ok(receiver.received.slice(0, disliked).every(({ message }) => message.data.data.i === 0));
});

eachDatabase(
  "disables a webhook and writes an event when the last attempt fails and nothing was delivered for long",
  async (db) => {
    const world = await makeWorld(db);
    await using receiver = await startReceiver(({ path }) => (path === "/watching" ? { status: 200 } : "hang up"));
    const webhook = await world.make({ url: `${receiver.url}/dead` });
    await world.make({ url: `${receiver.url}/watching`, types: ["webhook.disabled"] });
    await using _worker = await world.work();
    await write(world);
    await eventually(
      () => log(world, webhook.id),
      (rows) => rows[0]?.error?.includes("cannot be reached") === true,
    );
    await db.query(sql`update webhooks set failing_since = now() - interval '13 hours' where id = ${webhook.id}`);
    await db.query(
      sql`update webhook_deliveries set attempts = ${deliveryAttemptsMax - 1} where webhook_id = ${webhook.id}`,
    );
    await makeDue(world);
    const off = await eventually(
      () => readWebhook(db, world.sealer, world.owner.tenantId, webhook.id),
      ({ enabled }) => !enabled,
    );
    assert.match(off.disabled_reason ?? "", /12 hours.*cannot be reached/);
    await eventually(
      () => receiver.received,
      (all) => all.some(({ path }) => path === "/watching"),
    );
    const notice = receiver.received.find(({ path }) => path === "/watching");
    assert.deepEqual(notice?.message.data.data, { reason: off.disabled_reason, webhook_id: webhook.id });
    const { rows } = await db.query<{ actor: string }>(
      sql`select actor from audit_log where action = 'webhook.disable'`,
    );
    assert.deepEqual(rows, [{ actor: "system" }]);
    const before = receiver.received.length;
    await write(world);
    await changeWebhook(db, world.sealer, world.owner, webhook.id, { enabled: true });
    await write(world, { data: { again: true } });
    await eventually(
      () => receiver.received.slice(before),
      (all) => all.length > 0,
    );
    assert.deepEqual(receiver.received[before]?.message.data.data, { again: true });
  },
);

eachDatabase("does not retry after 410 Gone, and respects Retry-After", async (db) => {
  const world = await makeWorld(db);
  const inAnHour = { "/busy": "3600", "/busy-until": new Date(Date.now() + 3_600_000).toUTCString() };
  await using receiver = await startReceiver(({ path }) =>
    path === "/gone"
      ? { status: 410 }
      : { status: 429, headers: { "retry-after": inAnHour[path as keyof typeof inAnHour] } },
  );
  const gone = await world.make({ url: `${receiver.url}/gone` });
  const busy = await Promise.all(
    Object.keys(inAnHour).map((path) => world.make({ url: receiver.url + path, types: ["deployment.changed"] })),
  );
  await using _worker = await world.work();
  await write(world);
  await eventually(
    () => readWebhook(db, world.sealer, world.owner.tenantId, gone.id),
    ({ enabled }) => !enabled,
  );
  for (const { id } of busy) {
    const [waiting] = await eventually(
      () => log(world, id),
      ([row]) => row?.response_status === 429,
    );
    const waitMs = (waiting?.next_attempt_at?.getTime() ?? 0) - (waiting?.last_attempt_at?.getTime() ?? 0);
    assert.ok(waitMs > 3_500_000, String(waitMs)); // the date has whole seconds, and is set before the first attempt
  }
});

eachDatabase("calls no local address unless the operator allows it", async (db) => {
  const world = await makeWorld(db);
  await using trap = await startReceiver(() => ({ status: 200 }));
  const port = new URL(trap.url).port;
  const ids = [];
  for (const host of ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "[::1]"]) {
    ids.push((await world.make({ url: `http://${host}:${port}/` })).id);
  }
  await using _worker = await world.work({ allowPrivateNetwork: false });
  await write(world);
  for (const id of ids) {
    const [row] = await eventually(
      () => log(world, id),
      ([found]) => found !== undefined && found.error !== null,
    );
    assert.match(row?.error ?? "", /not a public address|does not resolve/);
  }
  assert.equal(trap.connections(), 0);
});

eachDatabase("a replaced secret also signs for a day", async (db) => {
  const world = await makeWorld(db);
  await using receiver = await startReceiver(() => ({ status: 200 }));
  const webhook = await world.make({ url: receiver.url });
  const second = await replaceWebhookSecret(db, world.sealer, world.owner, webhook.id);
  const third = await replaceWebhookSecret(db, world.sealer, world.owner, webhook.id);
  assert.equal(new Set([webhook.secret, second, third]).size, 3);
  await using _worker = await world.work();
  await write(world);
  await eventually(
    () => receiver.received,
    ({ length }) => length === 1,
  );
  const [got] = receiver.received;
  assert.equal(String(got?.headers["webhook-signature"]).split(" ").length, 2);
});

eachDatabase("a stopping worker releases its deliveries, and the next one sends them", async (db) => {
  const world = await makeWorld(db);
  let isSilent = true;
  await using receiver = await startReceiver(() => (isSilent ? "silence" : { status: 200 }));
  const webhook = await world.make({ url: receiver.url });
  const first = await world.work();
  await write(world);
  await eventually(
    () => receiver.received,
    ({ length }) => length === 1,
  );
  await first.stop();
  const [row] = await log(world, webhook.id);
  assert.deepEqual([row?.status, row?.attempts], ["pending", 0]);
  isSilent = false;
  await using _second = await world.work();
  await eventually(
    () => log(world, webhook.id),
    ([found]) => found?.status === "delivered",
  );
  assert.equal(receiver.received[0]?.id, receiver.received[1]?.id);
});

eachDatabase(
  "delivers the events of a database that was reset to an earlier copy, although their numbers repeat",
  async (db) => {
    const world = await makeWorld(db);
    await using receiver = await startReceiver(() => ({ status: 204 }));
    await world.make({ url: receiver.url });
    await using _worker = await world.work();
    for (let i = 0; i < 5; i += 1) await write(world, { data: { i } });
    const receivedAtLeast = (count: number) =>
      eventually(
        () => receiver.received.map(({ message }) => message.data.data.i),
        (found) => found.length >= count,
        { timeoutMs: 45_000 },
      );
    await receivedAtLeast(5);
    await db.transaction(async (trx) => {
      await trx.query(sql`delete from events where id > 2`);
      await trx.query(sql`delete from webhook_deliveries where event_id > 2`);
      await trx.query(sql`update webhook_position set event_id = 2`);
      await trx.query(sql`select setval('events_id_seq', 2)`);
    });
    // As a worker would that has not noticed yet.
    await createDeliveries(db, 5);
    await write(world, { data: { i: "again" } });
    assert.deepEqual((await receivedAtLeast(6)).slice(5), ["again"]);
  },
);

eachDatabase(
  "two servers share the work: each message is sent once and in order",
  async (db, { databaseUrl }) => {
    const world = await makeWorld(db);
    await using receiver = await startReceiver(() => ({ status: 200 }));
    for (let i = 0; i < 5; i += 1) await world.make({ url: `${receiver.url}/${i}` });
    const other = await openDatabase({ databaseUrl, dataDir: tmpdir(), logger, poolMax: 8 });
    try {
      await using _first = await world.work();
      await using _second = await world.work({ db: other });
      for (let i = 0; i < 60; i += 1) await write(i % 2 === 0 ? world : { ...world, db: other }, { data: { i } });
      await eventually(
        () => receiver.received.length,
        (count) => count >= 300,
        { timeoutMs: 60_000 },
      );
    } finally {
      await other.close();
    }
    assert.equal(receiver.received.length, 300);
    assert.equal(new Set(receiver.received.map(({ id }) => id)).size, 300);
    assert.equal(receiver.most.sameId, 1);
    for (let i = 0; i < 5; i += 1) {
      const order = receiver.received
        .filter(({ path }) => path === `/${i}`)
        .map(({ message }) => Number(message.data.id));
      assert.deepEqual(
        order,
        order.toSorted((a, b) => a - b),
      );
    }
  },
  { kinds: ["postgres"] },
);

eachDatabase("delivers text without a signature to Slack, and mail through the operator's server", async (db) => {
  const world = await makeWorld(db);
  await using receiver = await startReceiver(() => ({ status: 200 }));
  await world.make({ url: `${receiver.url}/slack`, format: "slack" });
  const { id } = await world.make({ url: "mailto:ops@example.org", format: "email" });
  const mail = { url: "smtp://127.0.0.1:1", from: "alerts@example.org", domains: ["example.org"] };
  await using _worker = await world.work({ mail });
  await write(world, { kind: "alert.firing", data: { rule: "failed", message: "Failed." } });
  const [message] = await eventually(
    () => receiver.received,
    ({ length }) => length === 1,
  );
  assert.equal(message?.headers["webhook-signature"], undefined);
  assert.match(message?.message.text, /failed\*\nFailed\./);
  const [delivery] = await eventually(
    () => log(world, id),
    ([one]) => one?.error != null,
  );
  assert.match(delivery?.error ?? "", /127\.0\.0\.1 cannot be reached/);
});
