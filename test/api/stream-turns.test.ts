import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { EventStream } from "../../src/api/events/event-stream.ts";
import { streamTurns } from "../../src/api/events/stream-turns.ts";
import { eventually } from "../support/eventually.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const payload = {
  name: `watched-${randomUUID()}`,
  source: "external_docker",
  source_config: { resource_spec: {} },
  source_revision_config: { image_uri: "registry.example/team/agent:1" },
};
const { body } = await t.ask({ method: "POST", url: "/v2/deployments", payload, key: t.tenant.adminKey });
const tenantId: string = body.tenant_id;
const turns = streamTurns(t.db.kind);

/** How many streams have ended. */
let ended = 0;

/** Serves all events from the first one on. */
const server = createServer(async (_request, response) => {
  const { db, logger, events: feed } = t.deps;
  const stream = new EventStream(
    { db, logger, feed, turns, heartbeatMs: 60_000, isAllowed: async () => true },
    { ...{ tenantId, deploymentIds: null, types: null, after: 0, logs: [] }, endsWithDeployment: false },
  );
  await stream.run(response, await stream.open());
  ended += 1;
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
after(async () => {
  await t.deps.events.close();
  server.closeAllConnections();
  server.close();
});

test("a stream whose client leaves while it waits for its turn ends, and takes no turn", async () => {
  await turns.enter(tenantId, new AbortController().signal);
  const client = new AbortController();
  const { body: opened } = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, client);
  const text = opened?.pipeThrough(new TextDecoderStream()).getReader();
  assert.match((await text?.read())?.value ?? "", /^retry: \d+\nid: 0\n/);
  client.abort();
  await eventually(
    () => ended,
    (count) => count === 1,
  );
  turns.leave(tenantId);
  assert.equal(turns.running(tenantId), 0);
});
