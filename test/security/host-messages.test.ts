import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { test } from "node:test";
import type { Trx } from "../../src/store/engine/database.ts";
import { startApi } from "../api/harness.ts";

const t = await startApi();

/** Counts the statements in transactions, which keep the embedded database from all other requests, and the size of their values. */
let statements = 0;
let valueBytes = 0;
const begin = t.db.transaction.bind(t.db);
t.db.transaction = (act) =>
  begin((trx) => {
    const counted: Trx["query"] = (...query) => {
      statements += 1;
      valueBytes += JSON.stringify(query[0].values).length;
      return trx.query(...query);
    };
    return act({ ...trx, query: counted });
  });

test("a signed message with thousands of branches or addresses must not keep the database busy", async () => {
  const integration = { host: "bitbucket", name: "x", url: "https://bitbucket.invalid/x", token: "t" };
  const { body: made } = await t.ask({ method: "POST", url: "/v2/integrations", payload: integration });
  const send = (changes: number, addresses: number, { path = "x", branch = "b" } = {}) => {
    const links = {
      clone: Array.from({ length: addresses }, (_, at) => ({ href: `https://bitbucket.invalid/${path}/${at}` })),
    };
    const change = (at: number) => ({
      old: { type: "branch" },
      new: { type: "branch", name: `${branch}${at}`, target: { hash: "a".repeat(40) } },
    });
    const push = { changes: Array.from({ length: changes }, (_, at) => change(at)) };
    const payload = JSON.stringify({ repository: { links }, push });
    const signature = createHmac("sha256", made.webhook_secret).update(payload).digest("hex");
    const headers = { "content-type": "application/json", "x-event-key": "repo:push", "x-request-uuid": randomUUID() };
    const url = `/v1/integrations/${made.id}/webhook`;
    [statements, valueBytes] = [0, 0];
    return t.ask({
      method: "POST",
      url,
      key: null,
      payload,
      headers: { ...headers, "x-hub-signature": `sha256=${signature}` },
    });
  };
  assert.equal((await send(20, 3)).body.status, "accepted");
  assert.equal(statements, 2, "one for the message, and one for its branches");
  assert.equal((await send(3_000, 3)).body.status, "accepted");
  assert.equal(statements, 2);
  assert.equal((await send(100, 9_000)).body.status, "accepted");
  assert.equal(statements, 2);
  assert.ok(valueBytes < 10_000, `${valueBytes} bytes of values`);
  // Neither can be the address of a repository, or its branch.
  assert.equal((await send(50, 10, { path: "\u00e9".repeat(40_000) })).body.status, "accepted");
  assert.ok(valueBytes < 10_000, `${valueBytes} bytes of values for long addresses`);
  assert.equal((await send(3, 3, { branch: "b".repeat(300_000) })).body.status, "ignored");
});

test("a message is compared with a few signatures only, however many its sender lists", async () => {
  const integration = { host: "gitlab", name: "z", url: "https://gitlab.invalid/z", token: "t" };
  const { body: made } = await t.ask({ method: "POST", url: "/v2/integrations", payload: integration });
  const send = (wrong: number) => {
    const payload = JSON.stringify({ object_kind: "push", wrong });
    const [id, timestamp] = [randomUUID(), String(Math.floor(Date.now() / 1_000))];
    const key = Buffer.from(made.webhook_secret.replace("whsec_", ""), "base64");
    const right = `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${payload}`).digest("base64")}`;
    const signatures = [...Array<string>(wrong).fill("a"), right].join(" ");
    const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures };
    const url = `/v1/integrations/${made.id}/webhook`;
    return t.ask({ method: "POST", url, key: null, payload, headers });
  };
  assert.equal((await send(0)).status, 202);
  assert.equal((await send(3)).status, 202);
  assert.equal((await send(6_000)).status, 403);
});

test("a signed message with a branch or an address that no repository can have is ignored", async () => {
  const integration = { host: "gitlab", name: "y", url: "https://gitlab.invalid/y", token: "t" };
  const { body: made } = await t.ask({ method: "POST", url: "/v2/integrations", payload: integration });
  for (const [branch, path, status] of [
    ["a\u0000b", "x", "ignored"],
    ["a\ud800", "x", "ignored"],
    ["a\u0007", "x", "ignored"],
    ["main", "x\u0000y", "accepted"],
  ] as const) {
    const [before, after] = ["1".repeat(40), "2".repeat(40)];
    const project = { git_http_url: "https://gitlab.invalid/y/x.git", git_ssh_url: `git@gitlab.invalid:y/${path}` };
    const payload = JSON.stringify({ object_kind: "push", ref: `refs/heads/${branch}`, before, after, project });
    const headers = { "content-type": "application/json", "x-gitlab-token": made.webhook_secret };
    const url = `/v1/integrations/${made.id}/webhook`;
    const answer = await t.ask({ method: "POST", url, key: null, payload, headers });
    assert.deepEqual([answer.status, answer.body.status], [202, status], answer.text);
  }
});
