import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "../api/harness.ts";
import { eventually } from "../support/eventually.ts";

const consoleDir = await mkdtemp(path.join(tmpdir(), "pierhead-console-"));
after(() => rm(consoleDir, { recursive: true, force: true }));
const t = await startApi({ consoleDir });
const url = "/v2/device-logins";

/** Starts a login that a person allows, and returns the secret of the command line. */
async function allowedLogin(by = t.tenant.adminKey): Promise<string> {
  const { body } = await t.ask({ method: "POST", url, key: null, payload: { client_name: "laptop" } });
  const payload = { user_code: body.user_code, allow: true };
  assert.equal((await t.ask({ method: "POST", url: `${url}/decision`, key: by, payload })).status, 204);
  return body.device_code;
}
const poll = (device_code: string) => t.ask({ method: "POST", url: `${url}/key`, key: null, payload: { device_code } });
const statusOf = async (key: string) => (await t.ask({ url: "/v2/session", key })).status;

test("a command line whose answer was lost gets the same key again, and no second one is made", async () => {
  const code = await allowedLogin();
  const answers = await Promise.all(Array.from({ length: 5 }, () => poll(code)));
  const keys = new Set(answers.map(({ body }) => body.key?.key));
  assert.equal(keys.size, 1, "concurrent polls get one key");
  const again = await poll(code);
  assert.equal(again.body.key.key, [...keys][0]);
  const { body } = await t.ask({ url: "/v2/admin/api-keys" });
  assert.equal(body.resources.filter(({ name }: { name: string }) => name === "laptop").length, 1);
  const days = (Date.parse(again.body.key.expires_at) - Date.now()) / 86_400_000;
  assert.ok(days > 89 && days <= 90, "the answer says when the key ends that is used");

  assert.equal(await statusOf(again.body.key.key), 200);
  await eventually(
    () => poll(code),
    ({ status }) => status === 404,
    { what: "the end of the login with the first use of its key" },
  );
});

test("a key that its command line never used does not outlive the login", async () => {
  const lost = (await poll(await allowedLogin())).body.key.key;
  const used = (await poll(await allowedLogin())).body.key;
  assert.equal(await statusOf(used.key), 200);
  await eventually(
    async () => (await t.ask({ url: `/v2/admin/api-keys/${used.id}` })).body.last_used_at,
    (at) => at !== null,
    { what: "the record of the use" },
  );
  // Eleven minutes later.
  await t.db.query(sql`update api_keys set expires_at = expires_at - interval '11 minutes' where name = 'laptop'`);
  assert.equal(await statusOf(lost), 401);
  assert.equal(await statusOf(used.key), 200);
});

test("a revoked key is not given out again", async () => {
  const code = await allowedLogin();
  const { key } = (await poll(code)).body;
  assert.equal((await t.ask({ method: "DELETE", url: `/v2/admin/api-keys/${key.id}` })).status, 204);
  assert.equal((await poll(code)).status, 404);
  const parent = await t.mintKey({ role: "deployer" });
  const second = await allowedLogin(parent);
  const child = (await poll(second)).body.key;
  const { api_key_id } = (await t.ask({ url: "/v2/session", key: parent })).body;
  assert.equal((await t.ask({ method: "DELETE", url: `/v2/admin/api-keys/${api_key_id}` })).status, 204);
  assert.equal((await poll(second)).status, 404);
  assert.equal(await statusOf(child.key), 401);
});
