import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Event } from "../../src/contract/logs/event.ts";
import type { NewWebhook, Webhook, WebhookDelivery } from "../../src/contract/webhooks/webhook.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { startReceiver } from "../webhooks/receiver.ts";
import { runCli } from "./run-cli.ts";

let server: TestServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "simulated", PIERHEAD_WEBHOOK_ANSWERS: "true" });
});
after(() => server[Symbol.asyncDispose]());

const cli = (argv: string[]) => runCli([...argv, "--data-dir", server.dataDir]);
const done = async (argv: string[]) => {
  const ran = await cli(argv);
  assert.equal(ran.code, 0, `${argv.join(" ")}: ${ran.stderr}`);
  return ran;
};
const json = async <T>(argv: string[]) => JSON.parse((await done([...argv, "--json"])).stdout) as T;

function create(name: string) {
  return server.client.createDeployment({
    body: {
      name,
      source: "external_docker",
      source_config: { resource_spec: {} },
      source_revision_config: { image_uri: "registry.example/team/agent:1" },
    },
  });
}

test("creates, tests, lists, redelivers, toggles, re-keys and deletes a webhook", async () => {
  await using receiver = await startReceiver(({ path }) => ({ status: path === "/bad" ? 500 : 200, body: "thanks" }));
  await create("hooked");
  const made = await done([
    "webhooks",
    "create",
    `${receiver.url}/ok`,
    "--description",
    "CI",
    "--deployment",
    "hooked",
  ]);
  assert.match(made.stdout, /^whsec_\S{32}\n$/);
  assert.doesNotMatch(made.stderr, /whsec_/);
  const tried = await done(["webhooks", "test", "CI"]);
  assert.match(tried.stdout, /^delivered: 200 in \d+ ms, 6 bytes: thanks/);
  await server.client.patchDeployment({
    deployment_id: (await server.client.listDeployments({ name: "hooked" })).resources[0]?.id as string,
    body: { display_name: "Hooked" },
  });
  await eventually(
    () => receiver.received.map(({ message }) => message.type),
    (types) => types.includes("deployment.changed"),
  );
  const { deliveries } = await json<{ deliveries: WebhookDelivery[] }>(["webhooks", "deliveries", "CI"]);
  assert.ok(deliveries.length >= 2);
  assert.match(
    (await done(["webhooks", "deliveries", "CI"])).stdout,
    /webhook\.test +delivered +1 .* 200 in \d+ ms, 6 bytes: thanks/,
  );
  const before = receiver.received.length;
  await done(["webhooks", "redeliver", "CI", (deliveries[0] as WebhookDelivery).id.slice(0, 8)]);
  assert.ok(receiver.received.length > before);

  await done([
    "webhooks",
    "update",
    "CI",
    "--address",
    `${receiver.url}/bad`,
    "--types",
    "revision.status,deployment.deleted",
  ]);
  const failed = await cli(["webhooks", "test", "CI"]);
  assert.deepEqual(
    [failed.code, /was not delivered/.test(failed.stderr), /500 in \d+ ms/.test(failed.stderr)],
    [1, true, true],
  );
  await done(["webhooks", "update", "CI", "--disable"]);
  const [off] = (await json<{ webhooks: Webhook[] }>(["webhooks", "list"])).webhooks;
  assert.deepEqual([off?.enabled, off?.types], [false, ["revision.status", "deployment.deleted"]]);
  assert.match((await cli(["webhooks", "test", "CI"])).stderr, /disabled/);
  await done(["webhooks", "update", "CI", "--enable", "--types", "all", "--deployment", "all"]);
  assert.match((await done(["webhooks", "list"])).stdout, /(on|failing) +all +all +http/);
  const { secret } = await json<NewWebhook>(["webhooks", "secret", "CI"]);
  assert.notEqual(`${secret}\n`, made.stdout);
  assert.equal((await cli(["webhooks", "delete", "CI"])).code, 2);
  await done(["webhooks", "delete", "CI", "--yes"]);
  assert.match((await cli(["webhooks", "test", "CI"])).stderr, /There is no webhook "CI"/);
});

test("redelivers a message that is behind many newer ones and shows the result", async () => {
  await using receiver = await startReceiver(() => ({ status: 200, body: "thanks" }));
  const { id: webhook_id } = await server.client.createWebhook({ body: { url: receiver.url, description: "busy" } });
  const { id } = await server.client.testWebhook({ webhook_id });
  for (let sent = 0; sent < 100; sent += 1) await server.client.testWebhook({ webhook_id });
  await eventually(
    () => receiver.received.length,
    (count) => count >= 101,
  );
  assert.match((await done(["webhooks", "redeliver", "busy", id])).stdout, /^delivered: 200 in/);
  await server.client.deleteWebhook({ webhook_id });
});

test("lists events oldest first, for one deployment or all, and follows them until Ctrl-C", async () => {
  const { id } = await create("timeline");
  await eventually(
    () => json<Event>(["events", "timeline", "-n", "1"]).catch(() => undefined),
    (event) => event?.data["to"] === "live",
    { timeoutMs: 60_000 },
  );
  const lines = (await done(["events", "timeline"])).stdout.trimEnd().split("\n");
  assert.match(lines[0] ?? "", /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d timeline [0-9a-f]{8} deployment\.created/);
  assert.match(lines.at(-2) ?? "", /revision\.status DEPLOYING -> DEPLOYED \(/);
  assert.match(lines.at(-1) ?? "", /deployment\.health deploying -> live$/);
  assert.match((await done(["events", "--types", "deployment.created"])).stdout, /timeline/);
  const abort = new AbortController();
  let [isEnded, shown] = [false, 0];
  const following = runCli(["events", id, "-f", "-n", "1", "--json", "--data-dir", server.dataDir], {
    signal: abort.signal,
    onStdout: (text) => {
      shown = text.split("\n").filter((line) => line.includes('"deployment.changed"')).length;
    },
  });
  void following.then(() => {
    isEnded = true;
  });
  await eventually(
    async () => {
      await server.client.patchDeployment({ deployment_id: id, body: { display_name: String(Math.random()) } });
      return shown;
    },
    // One of the lines may have been printed before.
    (lines) => lines > 2,
  );
  assert.equal(isEnded, false);
  abort.abort(new Error("Ctrl-C"));
  assert.equal((await following).code, 0);
});
