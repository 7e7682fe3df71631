import assert from "node:assert/strict";
import { test } from "node:test";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

type Files = Record<string, string>;

async function detect(files: Files) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

const manifest = (...packages: string[]) =>
  JSON.stringify({
    scripts: { start: "node dist/index.js", build: "tsc" },
    dependencies: Object.fromEntries(packages.map((name) => [name, "1"])),
  });

test("recognizes VoltAgent, and that its server opens a port of its own unless the program reads PORT", async () => {
  const package_ = manifest("@voltagent/core", "@voltagent/server-hono", "ai");
  const serverOf = async (code: string) =>
    (await detect({ "package.json": package_, "src/index.ts": `new VoltAgent({ agents, server: ${code} });\n` }))
      .server;
  const own = await serverOf("honoServer()");
  assert.deepEqual([own?.name, own?.start, own?.hasOwnPort], ["VoltAgent", "script:start", true]);
  assert.equal((await serverOf("honoServer({ port: Number(process.env.PORT) })"))?.hasOwnPort, false);
});

test("names Genkit and LlamaIndex.TS instead of the framework below them", async () => {
  const nameOf = async (...packages: string[]) =>
    (await detect({ "package.json": manifest(...packages), "src/index.ts": "app.listen(process.env.PORT)" })).server
      ?.name;
  assert.equal(await nameOf("genkit", "express"), "Genkit");
  assert.equal(await nameOf("llamaindex", "ai", "express"), "LlamaIndex.TS");
});

test("does not take the code of documentation for the server of a package", async () => {
  const pyproject = '[project]\nname = "kit"\ndependencies = ["starlette"]\n';
  const { server, because } = (await detect({
    "pyproject.toml": pyproject,
    "docs_src/tutorial.py": "app = Starlette()\n",
  })) as { server: null; because: string };
  assert.equal(server, null);
  assert.match(because, /its samples do: docs_src\/tutorial\.py \(Starlette\)/);
});

test("lets Auth.js trust the host name of the gateway", async () => {
  const variablesOf = async (...packages: string[]) =>
    (await detect({ "package.json": manifest("next", ...packages) })).server?.variables;
  for (const name of ["next-auth", "@auth/express"])
    assert.deepEqual(await variablesOf(name), { AUTH_TRUST_HOST: "true" });
  assert.equal(await variablesOf("next-authenticated"), undefined);
});
