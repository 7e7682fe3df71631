import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startAuthFixture } from "./auth-fixture.ts";

const w = await startAuthFixture();
const { t } = w;

/** A user with tokens of a provider of their own. */
async function ownerOfTokens() {
  const provider = await w.addProvider();
  const user = `user-${randomUUID()}`;
  const as = { headers: { "x-user-id": user } };
  const add = (fields: object) =>
    w.post("/v2/auth/tokens/import", { provider_id: provider, access_token: "a", ...fields }, as);
  return {
    provider,
    user,
    as,
    add,
    /** Adds tokens that all succeed. @returns the ids. */
    async addAll(count: number, fields: object): Promise<string[]> {
      const answers = await Promise.all(Array.from({ length: count }, () => add(fields)));
      for (const { status, text } of answers) assert.equal(status, 200, text);
      return answers.map(({ body }) => body.token_id);
    },
    async ids(): Promise<string[]> {
      const { body } = await t.ask({ url: `/v2/auth/tokens?provider_id=${provider}`, ...as });
      return body.map(({ id }: { id: string }) => id);
    },
  };
}

const expired = { expires_in_seconds: 0 };
const refreshable = { ...expired, refresh_token: "r" };

test("an import each hour goes on at the limit: expired tokens without a refresh token go first, the oldest first", async () => {
  const owner = await ownerOfTokens();
  const [oldest = ""] = await owner.addAll(1, expired);
  await owner.addAll(98, expired);
  const [lasting = ""] = await owner.addAll(1, {});
  for (let hour = 0; hour < 3; hour += 1) {
    const [newest = ""] = await owner.addAll(1, expired);
    const ids = await owner.ids();
    assert.equal(ids.length, 100);
    assert.deepEqual([ids.includes(newest), ids.includes(lasting), ids.includes(oldest)], [true, true, false]);
  }
  const { body: events } = await t.ask({ url: `/v2/auth/token-events?provider_id=${owner.provider}`, ...owner.as });
  const deleted = events.filter((event: { event_type: string }) => event.event_type === "deleted");
  assert.deepEqual(
    deleted.map(({ reason }: { reason: string }) => reason),
    ["token_limit", "token_limit", "token_limit"],
  );
});

test("a token that its provider has rejected goes before the others", async () => {
  const owner = await ownerOfTokens();
  const [oldest = "", rejected = ""] = [...(await owner.addAll(1, expired)), ...(await owner.addAll(1, refreshable))];
  await owner.addAll(98, expired);
  await t.db.query(sql`update oauth_tokens set is_dead = true where id = ${rejected}`);
  await owner.addAll(1, {});
  const ids = await owner.ids();
  assert.deepEqual([ids.includes(oldest), ids.includes(rejected)], [true, false]);
});

test("the limit refuses a token when each of the others can still be used, or an agent is connected to it", async () => {
  const owner = await ownerOfTokens();
  const other = await ownerOfTokens();
  await other.addAll(1, expired);
  const [connected = ""] = await owner.addAll(1, expired);
  const connection = await w.post("/v2/auth/agents/bot/connections", { oauth_token_id: connected }, owner.as);
  assert.equal(connection.status, 201, connection.text);
  await owner.addAll(98, refreshable);
  await owner.addAll(1, { expires_in_seconds: 3_600 });
  const before = await owner.ids();
  const refused = await owner.add({});
  assert.deepEqual(
    [refused.status, refused.body.detail],
    [400, "A user or agent has at most 100 tokens of one OAuth provider."],
  );
  assert.deepEqual(await owner.ids(), before);
  assert.equal((await other.ids()).length, 1);
  const signIn = { user_id: owner.user, force_new: true };
  assert.equal((await w.authenticate(owner.provider, signIn, owner.as)).status, 400, "before the user consents");
});

test("a user at the limit can sign in again while there is a token that can go", async () => {
  const owner = await ownerOfTokens();
  const ids = await owner.addAll(100, expired);
  const { state } = await w.begin(owner.provider, { user_id: owner.user, force_new: true }, owner.as);
  const page = await w.comeBack(owner.provider, { code: "code", state });
  assert.equal(page.status, 200, page.text);
  const left = await owner.ids();
  assert.equal(left.length, 100);
  assert.equal(left.filter((id) => !ids.includes(id)).length, 1);
});
