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

test("secrets become a map, with empty values and odd names kept", () => {
  const secrets = ["A", "_b", "constructor", "__proto__"].map((name) => ({ name, value: "" }));
  assert.deepEqual(Object.keys(checkSecrets(secrets, "github")), ["A", "_b", "constructor", "__proto__"]);
});

test("a secret's name is a variable name of at most 256 characters", () => {
  assert.equal(check("A".repeat(256)), "accepted");
  for (const bad of ["", "1A", "A-B", "A B", "A=B", "É", "A\n", "A".repeat(257)]) {
    assert.match(check(bad), /^400 invalidSecret/, JSON.stringify(bad));
  }
});

test("a name twice, a NUL or more than 1 MiB is refused without showing a value", () => {
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

test("every reserved name is refused, and all of them are named at once", () => {
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

test("what users set for their own backends is allowed, and the licence key for images from outside", () => {
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

test("a reference names a Kubernetes Secret and a key in it", () => {
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

test("a variable has one origin, which is found out at once of as many as a request has", () => {
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
