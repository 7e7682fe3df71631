import assert from "node:assert/strict";
import { test } from "node:test";
import { readServiceKey } from "../../src/auth/service-key.ts";
import { signServiceKey } from "../support/service-key.ts";

const secret = "shared with a service: 32 characters";
const tenantId = "0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22";
const nowMs = 1_800_000_000_000;
const nowS = nowMs / 1_000;
const claims = { sub: "tools", exp: nowS + 300, tenant_id: tenantId, user_id: "alice" };
const signed = (changed: object = {}, header?: object) =>
  signServiceKey({ ...claims, ...changed }, { secret, ...(header && { header }) });
const read = (token: string) => readServiceKey(token, secret, nowMs);
const parts = (token: string) => token.split(".") as [string, string, string];

test("a service key names its service, its workspace and its user", () => {
  assert.deepEqual(read(signed()), { service: "tools", tenantId, userId: "alice" });
  assert.equal(read(signed({ user_id: undefined }))?.userId, null);
  assert.equal(read(signed({ user_id: null }))?.userId, null);
  assert.equal(read(signed({ tenant_id: tenantId.toUpperCase() }))?.tenantId, tenantId);
});

test("a service key is accepted when clocks differ by up to a minute", () => {
  assert.ok(read(signed({ exp: nowS - 59, nbf: nowS + 59 })));
  assert.equal(read(signed({ exp: nowS - 60 })), undefined);
  assert.equal(read(signed({ nbf: nowS + 61 })), undefined);
});

const [head, body, signature] = parts(signed());
const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
const others: Record<string, string> = {
  nothing: "",
  "no signature": `${head}.${body}.`,
  "two parts": `${head}.${body}`,
  "four parts": `${head}.${body}.${signature}.x`,
  "the algorithm none": `${none}.${body}.`,
  "the algorithm none, signed": signed({}, { alg: "none" }),
  "another algorithm": signed({}, { alg: "HS512" }),
  "an asymmetric algorithm": signed({}, { alg: "RS256" }),
  "an unsupported critical header": signed({}, { alg: "HS256", crit: ["b64"], b64: false }),
  "no algorithm": signed({}, {}),
  "another secret": signServiceKey(claims, { secret: `${secret}x` }),
  "an empty secret": signServiceKey(claims, { secret: "" }),
  "another body": `${head}.${parts(signed({ user_id: "bob" }))[1]}.${signature}`,
  "a signature that is cut off": `${head}.${body}.${signature.slice(0, -4)}`,
  "no expiry": signed({ exp: undefined }),
  "an expiry that is a text": signed({ exp: String(nowS + 300) }),
  "an expiry in the past": signed({ exp: nowS - 3_600 }),
  "an expiry in ten years": signed({ exp: nowS + 315_360_000 }),
  "an expiry in more than an hour": signed({ exp: nowS + 3_600 + 61 }),
  "an issue time in the future": signed({ iat: nowS + 120 }),
  "an issue time that is a text": signed({ iat: "now" }),
  "a not-before in the future": signed({ nbf: nowS + 120 }),
  "a not-before that is a text": signed({ nbf: "now" }),
  "no service": signed({ sub: undefined }),
  "an empty service": signed({ sub: "" }),
  "a service of 1 KiB": signed({ sub: "a".repeat(1_024) }),
  "no workspace": signed({ tenant_id: undefined }),
  "a workspace that is not an id": signed({ tenant_id: "' or 1=1 --" }),
  "a user that is a number": signed({ user_id: 7 }),
  "an empty user": signed({ user_id: "" }),
  "a body that is a list": signServiceKey([], { secret }),
  "8 KiB": signed({ more: "a".repeat(8_192) }),
  "no JSON": `${head}.e30x.${signature}`,
};

for (const [what, token] of Object.entries(others)) {
  test(`refuses a service key with ${what}`, () => assert.equal(read(token), undefined));
}
