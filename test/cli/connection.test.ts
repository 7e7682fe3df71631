import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { startAnswering } from "../client/answering.ts";
import { createDirectory, runCli } from "./run-cli.ts";

test("blames a key or workspace with invalid header characters, not the server", async () => {
  await using server = await startAnswering(() => ({ status: 200, body: { resources: [], offset: 0 } }));
  await using files = await createDirectory({ key: "p\u0000h\u0000_\u0000a\u0000" });
  const at = ["list", "--url", server.url];
  for (const [argv, env] of [
    [at, { PIERHEAD_API_KEY: "ph_a\nph_b" }],
    [[...at, "--api-key-file", path.join(files.directory, "key")], {}],
    [at, { PIERHEAD_API_KEY: "k", PIERHEAD_WORKSPACE: "\u201cteam\u201d" }],
  ] as const) {
    const { code, stderr } = await runCli([...argv], { env });
    assert.equal(code, 2);
    assert.match(stderr, /^Error: The (key|workspace) .*contains invalid characters/);
  }
  assert.deepEqual(server.asked, []);
  assert.equal((await runCli(at, { env: { PIERHEAD_API_KEY: "k\r\n", PIERHEAD_WORKSPACE: "w\r\n" } })).code, 0);
});

test("rejects a second read of stdin and changes nothing", async () => {
  const deployment = { id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11", name: "support", secrets: [] };
  await using server = await startAnswering(() => ({ status: 200, body: { resources: [deployment], offset: 1 } }));
  for (const words of [
    ["env", "set", "support", "TOKEN"],
    ["env", "import", "support", "-"],
  ]) {
    const argv = [...words, "--api-key-file", "-", "--url", server.url];
    const { code, stderr } = await runCli(argv, { stdin: "ph_key\n" });
    assert.equal(code, 2);
    assert.match(stderr, /stdin was read already/);
  }
  assert.ok(server.asked.every(({ method }) => method === "GET"));
});
