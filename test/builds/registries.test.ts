import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { registryProblem } from "../../src/builds/image/registries.ts";

test("refuses registries in private networks, except those that the operator lists, and none on a laptop", async (context) => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-registries-"));
  context.after(() => rm(directory, { recursive: true, force: true }));
  const registryAuthFile = path.join(directory, "config.json");
  const auth = Buffer.from("user:password").toString("base64");
  const auths = { "127.0.0.1:5000": { auth }, "127.0.0.1:5001": {}, "127.0.0.1:5002": { identitytoken: "token" } };
  await writeFile(registryAuthFile, JSON.stringify({ auths }));
  const problemOf = (port: number, options: Partial<Parameters<typeof registryProblem>[1]> = {}) =>
    registryProblem(`127.0.0.1:${port}/team/image:1`, { registryAuthFile, allowsPrivateRegistries: false, ...options });
  assert.deepEqual(await Promise.all([5000, 5001, 5002].map((port) => problemOf(port))), [null, null, null]);
  assert.match((await problemOf(5003)) ?? "", /127\.0\.0\.1 is not a public address\..+PIERHEAD_REGISTRY_AUTH_FILE/);
  assert.match((await problemOf(5000, { registryAuthFile: null })) ?? "", /not a public address/);
  assert.equal(await problemOf(5003, { allowsPrivateRegistries: true }), null);
  assert.equal(await registryProblem("team/image:1", { registryAuthFile, allowsPrivateRegistries: false }), null);
});

test("refuses registries that may lead the engine anywhere, except well-known ones and those that the operator lists", async (context) => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-registries-"));
  context.after(() => rm(directory, { recursive: true, force: true }));
  const registryAuthFile = path.join(directory, "config.json");
  await writeFile(registryAuthFile, JSON.stringify({ auths: { "93.184.215.15": {} } }));
  const problemOf = (uri: string) => registryProblem(uri, { registryAuthFile, allowsPrivateRegistries: false });
  const strangers = ["93.184.215.14", "93.184.215.14:5000", "8.8.8.8", "[2606:4700:4700::1111]:5000"];
  for (const host of strangers) {
    assert.match((await problemOf(`${host}/team/image:1`)) ?? "", /does not know .+PIERHEAD_REGISTRY_AUTH_FILE/, host);
  }
  const imitations = [
    "ghcr.io:5000",
    "ghcr.io.93.184.215.14",
    "a.b.azurecr.io",
    "-a.azurecr.io",
    "x.ghcr.io",
    "GHCR.io",
    "1.dkr.ecr.eu-west-1.amazonaws.com",
  ];
  for (const host of imitations) assert.notEqual(await problemOf(`${host}/team/image:1`), null, host);
  const known = [
    ...["docker.io", "ghcr.io", "quay.io", "registry.gitlab.com", "gcr.io", "europe-docker.pkg.dev", "acme.azurecr.io"],
    ...["123456789012.dkr.ecr.eu-west-1.amazonaws.com", "de.icr.io", "93.184.215.15"],
    ...["acme-a1b2c3d4e5.azurecr.io", "acme.azurecr.us", "jp2.icr.io", "123456789012.dkr-ecr.eu-west-1.on.aws"],
  ];
  for (const host of known) assert.equal(await problemOf(`${host}/team/image:1`), null, host);
});
