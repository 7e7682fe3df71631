import assert from "node:assert/strict";
import { test } from "node:test";
import { createCallerAssertions } from "../../src/auth/caller-assertion.ts";
import type { ConsoleCall } from "../../src/gateway/console-call.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "./harness.ts";

const calls: ConsoleCall[] = [];
const t = await startApi(
  {},
  {
    callAgent(_request, response, call) {
      calls.push(call);
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    },
  },
);
const fromConsole = { "x-pierhead-console": "1" };
const signedIn = await t.ask({
  ...{ method: "POST", url: "/v2/session", key: null, headers: fromConsole },
  payload: { api_key: t.tenant.adminKey },
});
const cookie = String(signedIn.headers["set-cookie"]).split(";", 1)[0] ?? "";
const made = await t.ask({
  ...{ method: "POST", url: "/v2/deployments" },
  payload: {
    ...{
      name: "bot",
      source: "github",
      source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    },
    source_config: { repo_url: "https://github.com/acme/bot", build_on_push: false },
  },
});
const base = `/v2/deployments/${made.body.id}/agent`;
type Asked = Parameters<typeof t.ask>[0];
const asUser = (asked: Asked) => t.ask({ key: null, ...asked, headers: { cookie, ...fromConsole, ...asked.headers } });

test("the console's session calls an agent, which gets an assertion about the user for this deployment only", async () => {
  const { status } = await asUser({ url: `${base}/threads/a%2Fb/history?limit=3` });
  assert.equal(status, 200);
  const call = calls.pop();
  assert.deepEqual([call?.path, call?.deploymentId], ["/threads/a%2Fb/history?limit=3", made.body.id]);
  const issuer = () => "http://127.0.0.1";
  const claims = createCallerAssertions(t.deps.sealer, { issuer, now: () => new Date() }).read(call?.assertion ?? "");
  assert.deepEqual([claims?.deploymentId, claims?.role, claims?.tenantId], [made.body.id, "admin", t.tenant.tenantId]);
});

test("only pages of the console call agents with the session, and only those of its workspace", async () => {
  const url = `${base}/threads/search`;
  assert.equal((await t.ask({ url, key: null, headers: { cookie } })).status, 403, "without the console's header");
  assert.equal((await asUser({ url, headers: { "sec-fetch-site": "same-site" } })).status, 403);
  assert.equal((await t.ask({ url, key: null, headers: fromConsole })).status, 401, "without a session");
  const key = await t.mintKey({ role: "agent" });
  assert.equal((await t.ask({ url, key, headers: fromConsole })).status, 403, "an agent's own key");
  const foreign = { key: t.stranger.adminKey, headers: fromConsole };
  assert.equal((await t.ask({ url, ...foreign })).status, 404);
  assert.equal((await asUser({ url: "/v2/deployments/none/agent/ok" })).status, 404);
  assert.deepEqual(calls, []);
});

test("the audit log tells answers to requests of an agent from other runs", async () => {
  const answering = { "x-pierhead-answer": "1" };
  await asUser({ method: "POST", url: `${base}/threads/t9/runs/stream`, payload: {}, headers: answering });
  await asUser({ method: "POST", url: `${base}/threads/t9`, payload: {}, headers: answering });
  const { body } = await t.ask({ url: "/v2/admin/audit-log?action=agent.answer" });
  assert.deepEqual(
    body.items.map((item: { details: object }) => item.details),
    [{ verb: "POST", path: "/threads/t9/runs/stream" }],
  );
  await t.db.query(sql`delete from audit_log where action like 'agent.%'`);
});

test("the audit log names callers that start a run, and not those that only read", async () => {
  await asUser({ method: "POST", url: `${base}/threads/search`, payload: {} });
  await asUser({
    method: "POST",
    url: `${base}/threads/t1/runs/stream?secret=1`,
    payload: { input: { text: "hidden" } },
  });
  // Words of the query, and routes of the agent's own, do not make a call one that reads.
  await asUser({ method: "POST", url: `${base}/runs/wait?x=/search`, payload: {} });
  await asUser({ method: "POST", url: `${base}/admin/search`, payload: {} });
  const { body } = await t.ask({ url: "/v2/admin/audit-log?action=agent.call" });
  assert.deepEqual(
    body.items.map((item: { details: object; deployment_id: string }) => [item.details, item.deployment_id]),
    ["/admin/search", "/runs/wait", "/threads/t1/runs/stream"].map((path) => [{ verb: "POST", path }, made.body.id]),
  );
});
