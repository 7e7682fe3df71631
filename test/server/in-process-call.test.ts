import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import fastify from "fastify";
import { epochHeader } from "../../src/contract/listeners/assignment.ts";
import { callerOf } from "../../src/server/listener-transport.ts";
import { callInProcess, type InProcessCall } from "../../src/server/tuning/in-process-call.ts";
import { startApi } from "../api/harness.ts";
import { eventually } from "../support/eventually.ts";

const t = await startApi();
const url = await t.api.listen({ host: "127.0.0.1", port: 0 });
const key = { "x-api-key": t.tenant.adminKey };

const call = (changes: Partial<InProcessCall>) =>
  callInProcess(t.api, {
    ...{ method: "GET", path: "/v2/deployments", headers: key, address: "127.0.0.1" },
    signal: AbortSignal.timeout(30_000),
    ...changes,
  });

for (const off of ["none", "in-process-calls"] as const) {
  test(`answers a call in the process like one over a socket (off: ${off})`, async () => {
    const callApi = callerOf(t.api, new Set(off === "none" ? [] : [off]));
    const broken = { name: "größer – 名前", source: "nowhere", source_config: {} };
    const calls: Partial<InProcessCall>[] = [
      {},
      { headers: {} },
      { headers: { "X-Api-Key": t.tenant.adminKey } },
      { path: "/v2/deployments?limit=one" },
      { path: `/v2/deployments/${randomUUID()}` },
      { path: "/nowhere" },
      { method: "POST", body: JSON.stringify(broken) },
      { method: "POST", body: "{" },
      { method: "POST" },
      { path: "/auth/public" },
    ];
    for (const one of calls) {
      const { method = "GET", path = "/v2/deployments", headers = key, body } = one;
      const sent = { ...(headers as Record<string, string>), ...(body && { "content-type": "application/json" }) };
      const answer = await fetch(url + path, { method, headers: sent, body: body ?? null });
      const signal = AbortSignal.timeout(30_000);
      const ours = await callApi({ method, path, headers, body, address: "127.0.0.1", signal });
      assert.deepEqual([ours.status, ours.text], [answer.status, await answer.text()], `${method} ${path} ${body}`);
    }
  });
}

test("transfers a body with any characters and a long response unchanged", async () => {
  const server = fastify({ bodyLimit: 4 * 1024 * 1024 });
  server.post("/echo", async (request) => request.body);
  await server.ready();
  const body = JSON.stringify({ note: `ä€😀"\\`.repeat(50_000) });
  const { signal } = new AbortController();
  const asked = { method: "POST", path: "/echo", headers: {}, body, address: "127.0.0.1", signal };
  const answer = await callInProcess(server, asked);
  assert.equal(answer.status, 200);
  assert.ok(answer.text === body, "the response differs from the request");
  await server.close();
});

test("rejects at once when the caller aborts, and ends the wait in the API", async () => {
  const payload = JSON.stringify({ compute_type: "k8s", compute_id: randomUUID(), compute_config: {} });
  const made = JSON.parse((await call({ method: "POST", path: "/v2/listeners", body: payload })).text);
  const headers = { "x-api-key": made.listener_key };
  const facts = { instance_id: "one", version: "1.0.0", protocols: [1], compute_type: "kubernetes" };
  const opened = await call({ method: "POST", path: "/dp/v1/sessions", headers, body: JSON.stringify(facts) });
  const asked = { ...headers, [epochHeader]: String(JSON.parse(opened.text).epoch) };
  const leaving = new AbortController();
  const answers = () => countOf({ operation: "getDesired", status: 499 });
  const waited = call({ path: "/dp/v1/desired?after=0&wait=30", headers: asked, signal: leaving.signal });
  setTimeout(() => leaving.abort(new Error("enough")), 100);
  await assert.rejects(waited, /^Error: enough$/);
  await eventually(answers, (count) => count === 1);
  await assert.rejects(call({ signal: leaving.signal }), /^Error: enough$/);
});

test("rejects a response that breaks off", async () => {
  const server = fastify();
  server.get("/broken", (_, reply) => {
    reply.hijack();
    reply.raw.write("half");
    reply.raw.destroy();
  });
  await server.ready();
  const { signal } = new AbortController();
  const asked = { method: "GET", path: "/broken", headers: {}, address: "127.0.0.1", signal };
  await assert.rejects(callInProcess(server, asked), /broke its answer off/);
  await server.close();
});

async function countOf(labels: Record<string, string | number>): Promise<number> {
  const { values } = await t.deps.metrics.requests.get();
  const isIt = (found: object) => Object.entries(labels).every(([name, value]) => found[name as never] === value);
  return values.find((one) => isIt(one.labels))?.value ?? 0;
}
