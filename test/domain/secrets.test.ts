import assert from "node:assert/strict";
import { test } from "node:test";
import {
  checkOneOrigin,
  checkSecretReferences,
  checkSecrets,
  reservedSecretNames,
} from "../../src/domain/secret-names.ts";
import { refusal } from "./fixtures.ts";

const check = (name: string, value = "v") => refusal(() => checkSecrets([{ name, value }], "github"));

test("returns secrets as a map, including empty values and unusual names", () => {
  const secrets = ["A", "_b", "constructor", "__proto__"].map((name) => ({ name, value: "" }));
  assert.deepEqual(Object.keys(checkSecrets(secrets, "github")), ["A", "_b", "constructor", "__proto__"]);
});

test("accepts only variable names of at most 256 characters", () => {
  assert.equal(check("A".repeat(256)), "accepted");
  for (const bad of ["", "1A", "A-B", "A B", "A=B", "É", "A\n", "A".repeat(257)]) {
    assert.match(check(bad), /^400 invalidSecret/, JSON.stringify(bad));
  }
});

test("refuses a repeated name, a NUL or more than 1 MiB without showing a value", () => {
  const twice = [
    { name: "A", value: "hush" },
    { name: "A", value: "hush" },
  ];
  assert.equal(
    refusal(() => checkSecrets(twice, "github")),
    "400 invalidSecret: Secrets error: 'A' is given twice.",
  );
  assert.match(check("A", "hush\0"), /^400 invalidSecret/);
  assert.doesNotMatch(check("A", "hush\0"), /hush/);
  assert.equal(check("A", "x".repeat(1024 * 1024 - 1)), "accepted");
  assert.match(check("A", "x".repeat(1024 * 1024)), /^400 invalidSecret/);
});

test("refuses every reserved name, and lists all of them at once", () => {
  for (const name of reservedSecretNames)
    assert.match(check(name), new RegExp(`^400 secretNameReserved: .*${name}\\.$`));
  const two = [
    { name: "DATABASE_URI", value: "" },
    { name: "OK", value: "" },
    { name: "LOG_JSON", value: "" },
  ];
  assert.match(
    refusal(() => checkSecrets(two, "github")),
    /: DATABASE_URI, LOG_JSON\.$/,
  );
});

test("accepts variables for users' own backends, and the licence key for external images", () => {
  for (const name of [
    "LANGSMITH_API_KEY",
    "LANGSMITH_ENDPOINT",
    "POSTGRES_URI_CUSTOM",
    "REDIS_URI_CUSTOM",
    "PATH",
    "PORT",
    "MOUNT_PREFIX",
  ]) {
    assert.equal(check(name), "accepted", name);
  }
  for (const name of ["LANGGRAPH_CLOUD_LICENSE_KEY", "LANGGRAPH_AUTH_TYPE"]) {
    assert.equal(
      refusal(() => checkSecrets([{ name, value: "" }], "external_docker")),
      "accepted",
    );
  }
});

test("accepts references with valid names of a Kubernetes Secret and its key", () => {
  const reference = (secret_name: string, secret_key: string) =>
    refusal(() => checkSecretReferences([{ name: "A", secret_name, secret_key }], "external_docker"));
  assert.equal(reference("my-keys.v1", "a_KEY.x"), "accepted");
  for (const [name, key] of [
    ["", "a"],
    ["Keys", "a"],
    ["../x", "a"],
    ["a", ""],
    ["a", "a/b"],
  ] as const) {
    assert.match(reference(name, key), /^400 invalidSecret/, `${name} ${key}`);
  }
});

test("refuses a variable with two origins, and checks the largest request quickly", () => {
  const reference = (name: string) => ({ name, secret_name: "a", secret_key: "b" });
  const names = Array.from({ length: 80_000 }, (_, index) => `A${index}`);
  const began = performance.now();
  checkOneOrigin(
    names,
    names.map((name) => reference(`R${name}`)),
  );
  assert.ok(performance.now() - began < 1_000, `${performance.now() - began} ms`);
  const both = refusal(() => checkOneOrigin(["A", "B"], [reference("B")]));
  assert.match(both, /^400 invalidSecret.* name B\.$/);
});
