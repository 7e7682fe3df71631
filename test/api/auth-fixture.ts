import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, beforeEach } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startOAuthServer } from "../support/oauth-server.ts";
import { type Answer, startApi, type TestApi } from "./harness.ts";

/** Part of every secret that is exchanged here; no response, page or log may contain it. */
export const canary = "canary";

/** An API, a provider at the other end of the wire, and the steps of a sign-in. */
export async function startAuthFixture(
  settings: Parameters<typeof startApi>[0] = {},
  replaced: Parameters<typeof startApi>[1] = {},
) {
  return authFixtureOf(await startApi(settings, replaced));
}

/** Returns the same on an API that is already running. */
export async function authFixtureOf(t: TestApi) {
  const as = await startOAuthServer();
  after(() => as[Symbol.asyncDispose]());
  const honest = as.answer;
  beforeEach(() => {
    as.answer = honest;
    as.calls.length = 0;
  });

  type More = Parameters<typeof t.ask>[0];
  const post = (url: string, payload: object, more: More = {}) => t.ask({ method: "POST", url, payload, ...more });

  /** Creates a separate provider for each test. */
  const addProvider = async (fields: object = {}, more: More = {}): Promise<string> => {
    const provider_id = `p-${randomUUID()}`;
    const endpoints = { auth_url: `${as.url}/authorize`, token_url: `${as.url}/token` };
    const client = { client_id: "c", client_secret: `${canary}-secret` };
    const answer = await post(
      "/v2/auth/providers",
      { provider_id, name: "Example", ...client, ...endpoints, ...fields },
      more,
    );
    assert.equal(answer.status, 200, answer.text);
    return provider_id;
  };

  const authenticate = (provider: string, fields: object = {}, more: More = {}) =>
    post("/v2/auth/authenticate", { provider, scopes: ["read"], user_id: "alice", ...fields }, more);

  const begin = async (provider: string, fields: object = {}, more: More = {}) => {
    const { status, body, text } = await authenticate(provider, fields, more);
    assert.ok(status === 200 && body.url !== null, text);
    return {
      authId: body.auth_id as string,
      state: new URL(body.url).searchParams.get("state") ?? "",
      url: body.url as string,
    };
  };

  const comeBack = (provider: string, query: Record<string, string> | [string, string][] | string) =>
    t.ask({
      url: `/v2/auth/callback/${provider}?${typeof query === "string" ? query : new URLSearchParams(query)}`,
      key: null,
    });

  const wait = (authId: string, timeout = 0, more: More = {}) =>
    t.ask({ url: `/v2/auth/wait/${authId}?timeout=${timeout}`, ...more });

  /** Signs a user in and returns the id of the token. */
  const connect = async (provider: string, fields: object = {}, more: More = {}): Promise<string> => {
    const { state } = await begin(provider, fields, more);
    const page = await comeBack(provider, { code: `${canary}-code`, state });
    assert.equal(page.status, 200, page.text);
    const { body } = await authenticate(provider, { ...fields, force_new: false }, more);
    assert.equal(body.status, "completed");
    return body.metadata.token_id;
  };

  /** Makes all its tokens look expired. */
  const expireTokens = (provider: string) =>
    t.db.query(sql`update oauth_tokens t set expires_at = now() - interval '1 second' from oauth_providers p
         where p.id = t.provider_row_id and p.provider_id = ${provider}`);

  const countTokens = async (provider: string): Promise<number> => {
    const { rows } = await t.db.query<{ count: number }>(sql`
      select count(*) as count from oauth_tokens t join oauth_providers p on p.id = t.provider_row_id
       where p.provider_id = ${provider}`);
    return rows[0]?.count ?? 0;
  };

  return { t, as, post, addProvider, authenticate, begin, comeBack, wait, connect, expireTokens, countTokens };
}

export type AuthFixture = Awaited<ReturnType<typeof authFixtureOf>>;

/** Asserts that a page says plainly that nothing was connected, and reveals nothing. */
export function assertPlainRefusal(answer: Answer): void {
  assert.equal(answer.status, 400, answer.text);
  assert.match(answer.text, /<h1>Not connected<\/h1>\s*<p>[A-Z][^<]{10,200}\.<\/p>/);
  const shown = answer.text + JSON.stringify(answer.headers);
  assert.ok(!shown.includes(canary), shown);
  assert.ok(!/[\s"]at \w+.*:\d+:\d+|Error:/.test(shown), shown);
}
