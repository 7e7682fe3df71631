import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { test } from "node:test";
import { assertionLifeS, createCallerAssertions } from "../../src/auth/caller-assertion.ts";

const claims = {
  deploymentId: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11",
  caller: "key:1",
  role: "reader",
  tenantId: "0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22",
  organizationId: "0b7a4b64-1f0c-4a55-9c0d-51f7a9b2c3d4",
} as const;

function start(keys = [{ keyId: "one", bytes: randomBytes(32) }]) {
  let nowMs = 1_795_000_000_000;
  const options = { issuer: () => "https://pierhead.example", now: () => new Date(nowMs) };
  return {
    keys,
    assertions: createCallerAssertions({ deriveKeys: () => keys }, options),
    wait: (ms: number) => {
      nowMs += ms;
    },
  };
}

const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");

test("reads what it signed until the assertion expires", () => {
  const { assertions, wait } = start();
  const token = assertions.sign(claims);
  assert.deepEqual(assertions.read(token), claims);
  wait(assertionLifeS * 1_000 - 1);
  assert.deepEqual(assertions.read(token), claims);
  wait(1);
  assert.equal(assertions.read(token), undefined);
});

test("reads assertions of a replaced key while that key is in use, and signs with the active one", () => {
  const { assertions, keys } = start();
  const before = assertions.sign(claims);
  keys.unshift({ keyId: "two", bytes: randomBytes(32) });
  assert.deepEqual(assertions.read(before), claims);
  assert.match(Buffer.from(assertions.sign(claims).split(".")[0] ?? "", "base64url").toString(), /"kid":"two"/);
  assert.deepEqual(
    assertions.publicKeys().map(({ kid }) => kid),
    ["two", "one"],
  );
  keys.pop();
  assert.equal(assertions.read(before), undefined);
});

test("derives the same key on every server", () => {
  const { assertions, keys } = start();
  assert.deepEqual(start(keys).assertions.read(assertions.sign(claims)), claims);
  assert.deepEqual(start(keys).assertions.publicKeys(), assertions.publicKeys());
});

test("refuses forged and malformed assertions", () => {
  const { assertions } = start();
  const [head = "", body = "", signature = ""] = assertions.sign(claims).split(".");
  const payload = JSON.parse(Buffer.from(body, "base64url").toString());
  const raised = encoded({ ...payload, role: "admin" });
  const { privateKey } = generateKeyPairSync("ed25519");
  const [{ x = "" } = {}] = assertions.publicKeys();
  const signedBy = (header: object, text = body) =>
    `${encoded(header)}.${text}.${sign(null, Buffer.from(`${encoded(header)}.${text}`), privateKey).toString("base64url")}`;
  const hmacHead = encoded({ alg: "HS256", kid: "one" });
  const hmac = createHmac("sha256", Buffer.from(x, "base64url")).update(`${hmacHead}.${raised}`).digest("base64url");
  const forged = [
    ...["", ".", "..", "...", "a.b.c", `${head}.${body}`, `${head}.${body}.`, `${head}.${body}.${signature}.`],
    `${head}.${raised}.${signature}`,
    `${encoded({ alg: "none", kid: "one" })}.${raised}.`,
    `${hmacHead}.${raised}.${hmac}`,
    signedBy({ alg: "EdDSA", kid: "one" }),
    signedBy({ alg: "EdDSA", kid: "two" }),
    signedBy({ alg: "EdDSA" }),
    `${encoded({ alg: "EdDSA", kid: "one", crit: ["x"] })}.${body}.${signature}`,
    `${head}.${encoded([])}.${signature}`,
    `${head}.${body}.${Buffer.alloc(64).toString("base64url")}`,
    `${"x".repeat(5_000)}.${body}.${signature}`,
  ];
  for (const token of forged) assert.equal(assertions.read(token), undefined, token.slice(0, 80));
});
