import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { test } from "node:test";
import type { Trx } from "../../src/store/engine/database.ts";
import { startApi } from "../api/harness.ts";

const t = await startApi();

/** Counts the statements in transactions, which keep the embedded database from all other requests. */
let statements = 0;
const begin = t.db.transaction.bind(t.db);
t.db.transaction = (act) =>
  begin((trx) => {
    const counted: Trx["query"] = (...query) => {
      statements += 1;
      return trx.query(...query);
    };
    return act({ ...trx, query: counted });
  });

test("a signed message with thousands of branches or addresses must not keep the database busy", async () => {
  const integration = { host: "bitbucket", name: "x", url: "https://bitbucket.invalid/x", token: "t" };
  const { body: made } = await t.ask({ method: "POST", url: "/v2/integrations", payload: integration });
  const send = (changes: number, addresses: number) => {
    const links = {
      clone: Array.from({ length: addresses }, (_, at) => ({ href: `https://bitbucket.invalid/x/${at}` })),
    };
    const change = (at: number) => ({
      old: { type: "branch" },
      new: { type: "branch", name: `b${at}`, target: { hash: "a".repeat(40) } },
    });
    const push = { changes: Array.from({ length: changes }, (_, at) => change(at)) };
    const payload = JSON.stringify({ repository: { links }, push });
    const signature = createHmac("sha256", made.webhook_secret).update(payload).digest("hex");
    const headers = { "content-type": "application/json", "x-event-key": "repo:push", "x-request-uuid": randomUUID() };
    const url = `/v1/integrations/${made.id}/webhook`;
    statements = 0;
    return t.ask({
      method: "POST",
      url,
      key: null,
      payload,
      headers: { ...headers, "x-hub-signature": `sha256=${signature}` },
    });
  };
  assert.equal((await send(20, 3)).body.status, "accepted");
  assert.equal(statements, 21, "one for the message, and one for each branch");
  assert.equal((await send(3_000, 3)).body.status, "accepted");
  assert.equal(statements, 51);
  assert.equal((await send(100, 9_000)).body.status, "accepted");
  assert.equal(statements, 51);
});

test("a signed message with a branch that no repository can have is ignored", async () => {
  const integration = { host: "gitlab", name: "y", url: "https://gitlab.invalid/y", token: "t" };
  const { body: made } = await t.ask({ method: "POST", url: "/v2/integrations", payload: integration });
  for (const branch of ["a\u0000b", "a\ud800", "a\u0007"]) {
    const [before, after] = ["1".repeat(40), "2".repeat(40)];
    const project = { git_http_url: "https://gitlab.invalid/y/x.git" };
    const payload = JSON.stringify({ object_kind: "push", ref: `refs/heads/${branch}`, before, after, project });
    const headers = { "content-type": "application/json", "x-gitlab-token": made.webhook_secret };
    const url = `/v1/integrations/${made.id}/webhook`;
    const answer = await t.ask({ method: "POST", url, key: null, payload, headers });
    assert.deepEqual([answer.status, answer.body.status], [202, "ignored"], answer.text);
  }
});
