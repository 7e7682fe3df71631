import assert from "node:assert/strict";
import { test } from "node:test";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

type Files = Record<string, string>;

async function detect(files: Files) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

const program = "DENO_DIR=.pierhead-node/deno ./.pierhead-node/node_modules/.bin/deno";
const serving = "Deno.serve(() => new Response())";

/** Projects of Deno: their files, the start command and the build. */
const projects: [string, Files, string, string | null][] = [
  [
    "the start task, from a configuration with comments",
    {
      "deno.jsonc": '{\n  // "tasks": {}\n  "tasks": { "start": "deno run -A --env-file=.env web/main.ts", },\n}',
      "web/main.ts": serving,
    },
    "deno run -A --env-file=.env web/main.ts",
    `${program} cache web/main.ts`,
  ],
  [
    "the task for production, not the one that watches",
    {
      "deno.json":
        '{"tasks": {"start": "deno run -A --watch dev.ts", "production": {"command": "deno run -A main.ts"}}}',
      "main.ts": serving,
      "package.json": '{"dependencies": {"@prisma/client": "6"}}',
    },
    "deno run -A main.ts",
    `${program} cache main.ts`,
  ],
  [
    "a task that needs a shell, after its own build",
    {
      "deno.json": '{"tasks": {"build": "deno run -A build.ts", "start": "A=1 deno serve main.ts | tee log"}}',
      "main.ts": "",
    },
    "deno task start",
    `${program} task build`,
  ],
  [
    "a file that serves",
    { "deno.json": "{}", "server.ts": serving },
    "deno run --allow-all server.ts",
    `${program} cache server.ts`,
  ],
  [
    "a file that exports a handler",
    { "deno.json": "", "main.ts": "export default { fetch: () => new Response() }" },
    "deno serve --allow-all main.ts",
    `${program} cache main.ts`,
  ],
  [
    "a server of the MCP over standard input, through a proxy",
    { "deno.json": '{"tasks": {"start": "deno run -A main.ts"}}', "main.ts": "new StdioServerTransport()" },
    "node ./.pierhead-node/node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs --host $HOST --port $PORT -- deno run -A main.ts",
    `${program} cache main.ts`,
  ],
];

for (const [name, files, start, build] of projects) {
  test(`starts ${name}`, async () => {
    const { server } = await detect(files);
    assert.deepEqual([server?.preset, server?.start, server?.build], ["deno", start, build]);
    assert.match(server?.adds.join() ?? "", /^deno@/);
  });
}

test("gives Deno the address to listen on, and recognizes servers with a port of their own", async () => {
  const found = async (text: string) => {
    const { server } = await detect({ "deno.json": "{}", "main.ts": text });
    return [server?.variables?.["DENO_SERVE_ADDRESS"], server?.hasOwnPort];
  };
  assert.deepEqual(await found(serving), ["tcp:$HOST:$PORT", false]);
  assert.deepEqual(await found("express().listen(3000)"), ["tcp:$HOST:$PORT", true]);
  assert.deepEqual(await found('express().listen(Deno.env.get("PORT"))'), ["tcp:$HOST:$PORT", false]);
});

test("leaves a project of Node that has a configuration for Deno to Node", async () => {
  const express = { "package.json": '{"dependencies": {"express": "5"}}', "server.js": "app.listen(process.env.PORT)" };
  assert.equal((await detect({ ...express, "deno.json": '{"lint": {}}' })).server?.preset, "express");
  const script = { "package.json": '{"scripts": {"start": "deno run -A main.ts"}}', "main.ts": serving };
  const { server } = await detect({ ...script, "deno.json": "{}" });
  assert.deepEqual([server?.start, server?.adds], ["script:start", ["deno@2.9.6"]]);
});

test("does not mistake an imported module for a server", async () => {
  assert.equal((await detect({ "deno.json": "{}", "mod.ts": "export const a = 1" })).server, null);
});

test("says what a Deno configuration without a server lacks", async () => {
  const found = await detect({ "deno.json": '{"tasks": {"dev": "deno run --watch x.ts"}}' });
  assert.match("because" in found ? found.because : "", /no task that starts a server.*Add a start task/);
});
