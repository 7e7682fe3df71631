import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { readEventStream } from "../support/event-reader.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";
import { startReceiver } from "../webhooks/receiver.ts";

test("a server that exits soon after each start is crash-looping, with one event, until a fix serves", async () => {
  await using pierhead = await startTestServer({ PIERHEAD_ALLOW_PRIVATE_NETWORK: "true" });
  await using receiver = await startReceiver(() => ({ status: 200 }));
  await pierhead.client.createWebhook({ body: { url: receiver.url, types: ["deployment.health"] } });
  const watched = await readEventStream(`${pierhead.url}/v2/events?types=deployment.health`, {
    "x-api-key": pierhead.apiKey,
  });
  await using repository = await createAgentRepository(nodeAgent("one"));
  const made = await pierhead.client.createDeployment(from(repository.url));
  const ids = { deployment_id: made.id };
  assert.equal(made.health.status, "deploying");
  const health = async () => (await pierhead.client.getDeployment(ids)).health;
  await eventually(health, ({ status }) => status === "live", { what: "live" });
  const { url } = await pierhead.client.getDeployment(ids);
  for (let exits = 1; exits <= 3; exits += 1) {
    await eventually(
      () =>
        fetch(`${url}/ok`).then(
          ({ status }) => status,
          () => 0,
        ),
      (status) => status === 200,
      { what: `an answer before exit ${exits}` },
    );
    await fetch(`${url}/exit`).catch(() => undefined);
  }
  const looping = await eventually(health, ({ status }) => status === "crash_looping", { what: "crash-looping" });
  assert.equal(looping.reason, "Exited");
  assert.match(looping.message ?? "", /exit code 3|code 3/);
  assert.equal(looping.next_action?.kind, "read_log");
  const alertsOf = (kind: string) => async () =>
    (await pierhead.client.listAlerts({})).resources.filter((alert) => alert.kind === kind);
  const [alert] = await eventually(alertsOf("crash_looping"), ({ length }) => length > 0, { what: "an alert" });
  assert.deepEqual([alert?.state, alert?.deployment_name], ["firing", "agent"]);
  assert.match(alert?.message ?? "", /Crash-looping\. .*code 3/);

  const counted = await pierhead.client.countHealth();
  assert.equal(counted.counts.crash_looping, 1);
  const found = await pierhead.client.listDeployments({ health: ["crash_looping", "failed"] });
  assert.deepEqual(
    found.resources.map(({ id }) => id),
    [made.id],
  );

  await repository.commit(nodeAgent("two"));
  const fix = await pierhead.client.createRevision({ ...ids, body: {} });
  assert.equal((await pierhead.client.waitForRevision({ ...ids, revision_id: fix.id })).status, "DEPLOYED");
  await eventually(health, ({ status }) => status === "live", { what: "live again" });
  const { events } = await pierhead.client.listDeploymentEvents({ ...ids, types: ["deployment.health"], limit: 1_000 });
  const words = events.map(({ data }) => (data as { to: string }).to);
  assert.equal(words.filter((word) => word === "crash_looping").length, 1, words.join(" "));
  assert.equal(words.at(-1), "live");
  const ofWebhook = () => receiver.received.map(({ message }) => message.data.data.to);
  const ofStream = () => watched.messages.map(({ data }) => data.data.to);
  for (const [what, received] of Object.entries({ "the webhook": ofWebhook, "the stream": ofStream }))
    assert.deepEqual(await eventually(received, ({ length }) => length >= words.length, { what }), words, what);
  watched.close();
  const exits = await pierhead.client.listDeploymentEvents({ ...ids, types: ["replica.exited"] });
  assert.deepEqual(
    exits.events.map(({ data }) => [data["reason"], data["exit_code"], data["exits_in_a_row"]]),
    [
      ["Exited", 3, 1],
      ["Exited", 3, 2],
    ],
    "the third exit belongs to the crash loop",
  );
  const replicas = await pierhead.client.listReplicas(ids);
  assert.equal(replicas.last_exit?.exit_code, 3, "it stays in view after the fix");
  await eventually(alertsOf("crash_looping"), ([one]) => one?.state === "resolved", { what: "the end of the alert" });
  const alerts = await pierhead.client.listDeploymentEvents({ ...ids, types: ["alert.firing", "alert.resolved"] });
  assert.deepEqual(
    alerts.events.filter(({ data }) => data["rule"] === "crash_looping").map(({ type }) => type),
    ["alert.firing", "alert.resolved"],
  );
});

test("a deployment whose only build failed is failed, and a newer revision can mend it", async () => {
  await using pierhead = await startTestServer();
  const broken = JSON.stringify({ build: ["node", "-e", "process.exit(7)"], start: ["node", "server.js"] });
  await using repository = await createAgentRepository({ ...nodeAgent("one"), "pierhead.json": broken });
  const made = await pierhead.client.createDeployment(from(repository.url));
  const ids = { deployment_id: made.id };
  const health = async () => (await pierhead.client.getDeployment(ids)).health;
  const failed = await eventually(health, ({ status }) => status === "failed", { what: "failed" });
  assert.equal(failed.reason, "BuildFailed");
  assert.match(failed.message ?? "", /exit code 7/);
  assert.equal(failed.next_action?.kind, "read_build_log");

  await repository.commit(nodeAgent("two"));
  const fix = await pierhead.client.createRevision({ ...ids, body: {} });
  assert.equal((await pierhead.client.waitForRevision({ ...ids, revision_id: fix.id })).status, "DEPLOYED");
  await eventually(health, ({ status }) => status === "live", { what: "live" });

  await repository.commit({ ...nodeAgent("three"), "pierhead.json": broken });
  await pierhead.client.createRevision({ ...ids, body: {} });
  const degraded = await eventually(health, ({ status }) => status === "degraded", { what: "degraded" });
  assert.equal(degraded.reason, "NewRevisionFailed");
  const { url } = await pierhead.client.getDeployment(ids);
  assert.equal((await fetch(`${url}/version`)).status, 200);
});

const from = (url: string) => ({
  body: {
    name: "agent",
    source: "github" as const,
    source_config: { repo_url: url, deployment_type: "dev" as const, build_on_push: false },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
  },
});
