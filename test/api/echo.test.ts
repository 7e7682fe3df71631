import assert from "node:assert/strict";
import { test } from "node:test";
import { Type } from "typebox";
import { echo } from "../../src/api/validation/echo.ts";
import { compileValidator } from "../../src/api/validation/validate.ts";
import { CreateDeployment } from "../../src/contract/deployments/deployment.ts";
import {
  CreateIntegration,
  PatchIntegration,
  ReplaceIntegrationSecret,
} from "../../src/contract/integrations/integration.ts";
import { freeObject } from "../../src/contract/schema.ts";

const secret = "sk-do-not-repeat";
const validate = compileValidator(CreateDeployment, "body");

test("no response repeats a secret value, wherever the problem is", () => {
  const bodies = [
    { secrets: [{ name: "A", value: secret }] },
    { secrets: [{ name: "A", value: { deep: secret } }] },
    { secrets: [{ value: secret }] },
    { secrets: [{ A: secret }] },
    { secrets: [secret] },
    { secrets: { A: secret } },
    { secrets: secret },
    { secrets: [{ name: { value: secret }, value: "x" }] },
    { source: { secrets: [{ name: "A", value: secret }] }, secrets: [] },
    { source_config: { resource_spec: { sidecars: [{ name: "s", env: [{ name: "A", value: secret }, 5] }] } } },
    { client_secret: secret, nested: { token: secret, code: secret } },
  ];
  for (const body of bodies) {
    const { problems } = validate(body);
    assert.ok(problems.length > 0);
    assert.ok(!JSON.stringify(problems).includes(secret), JSON.stringify(body));
  }
});

test("keys of code hosts and webhooks are masked like tokens", () => {
  const integration = { name: "n", url: "https://git.example.org/a", ssh_known_hosts: "git.example.org ssh-ed25519 A" };
  const refused = [
    [CreateIntegration, { ...integration, ssh_key: secret }],
    [CreateIntegration, { ...integration, host: "git", ssh_key: [secret] }],
    [CreateIntegration, { ...integration, host: "git", token: { value: secret } }],
    [PatchIntegration, { ssh_key: { pem: secret } }],
    [ReplaceIntegrationSecret, { webhook_secret: secret.slice(0, 8) }],
    [ReplaceIntegrationSecret, { webhook_secret: [secret] }],
  ] as const;
  for (const [schema, body] of refused) {
    const { problems } = compileValidator(schema, "body")(body);
    assert.ok(problems.length > 0);
    assert.ok(!JSON.stringify(problems).includes(secret.slice(0, 8)), JSON.stringify(problems));
  }
});

test("repeats the names of secrets, so that the user knows which one is meant", () => {
  assert.deepEqual(echo([{ name: "A", value: secret }], ["body", "secrets"]), [{ name: "A", value: "**********" }]);
  assert.equal(echo(5, ["body", "secrets", 0, "name"]), 5);
  assert.equal(echo("x", ["body", "secrets", 0, "value"]), "**********");
});

test("cuts off large and deep values", () => {
  const large = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`key${index}`, "x".repeat(50)]));
  assert.ok(JSON.stringify(echo(large, ["body"])).length < 20_000);
  assert.ok(JSON.stringify(echo("x".repeat(1_000_000), ["body"])).length < 20_000);
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level += 1) deep = [deep];
  assert.ok(JSON.stringify(echo(deep, ["body"])).length < 1_000);
});

test("reports at most 100 problems per request, in a small response", () => {
  const secrets = Array.from({ length: 5_000 }, () => ({ value: "x".repeat(100) }));
  const { problems } = validate({ name: "a".repeat(1_000_000), secrets });
  assert.equal(problems.length, 100);
  assert.ok(JSON.stringify(problems).length < 200_000);
});

test("reads a large object once, however many of its fields are missing", () => {
  const target = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`key${index}`, index]));
  let walks = 0;
  const large = new Proxy(target, {
    ownKeys: (one) => {
      walks += 1;
      return Reflect.ownKeys(one);
    },
  });
  const { problems } = validate(large);
  assert.ok(problems.length > 2);
  assert.equal(walks, 1);
});

test("bounds what a response repeats, whatever the number of problems and the length of their keys", () => {
  const long = "k".repeat(100_000);
  const bad = Object.fromEntries(
    Array.from({ length: 200 }, (_, index) => [`key${index}`, `\u0000${"x".repeat(5_000)}`]),
  );
  const { problems } = compileValidator(Type.Object({ free: freeObject() }), "body")({ free: { [long]: bad } });
  assert.equal(problems.length, 100);
  assert.ok(JSON.stringify(problems).length < 256 * 1_024, `${JSON.stringify(problems).length} characters`);
});
