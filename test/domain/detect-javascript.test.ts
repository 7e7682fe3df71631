import assert from "node:assert/strict";
import { test } from "node:test";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

type Files = Record<string, string>;

async function detect(files: Files) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

test("runs an MCP server through a proxy when the build bundles it from a directory of scripts", async () => {
  const manifest = {
    scripts: { build: "node scripts/bundle.js", dev: "tsx watch scripts/start-server.ts" },
    bin: { tickets: "bin/cli.mjs" },
    dependencies: { "@modelcontextprotocol/sdk": "1" },
  };
  const { server } = await detect({
    "package.json": JSON.stringify(manifest),
    "scripts/start-server.ts": "if (transport === 'stdio') new StdioServerTransport()\nelse app.listen(options.port)",
    "scripts/options.ts": "let transport = 'stdio'",
    "src/proxy.ts": "export class Proxy {}",
  });
  assert.match(server?.start ?? "", /mcp-proxy.*--port \$PORT -- node bin\/cli\.mjs$/);
});

test("sets the variable that makes an MCP server serve events instead of its standard input", async () => {
  const manifest = {
    scripts: { start: "node dist/index.js", build: "tsc" },
    dependencies: { "@modelcontextprotocol/sdk": "1" },
  };
  const { server } = await detect({
    "package.json": JSON.stringify(manifest),
    "src/index.ts":
      "if (process.env.SSE_LOCAL === 'true') serve(new SSEServerTransport(path, response)).listen(process.env.PORT)\nelse serve(new StdioServerTransport())",
  });
  assert.deepEqual(server?.variables, { SSE_LOCAL: "true" });
  assert.equal(server?.start, "script:start");
});

test("runs an MCP server through a proxy when it serves HTTP only with a port in its arguments", async () => {
  const manifest = {
    scripts: { build: "tsc" },
    bin: "dist/index.js",
    dependencies: { "@modelcontextprotocol/sdk": "1" },
  };
  const files = {
    "src/index.ts":
      "if (args[0] === '--port') startHttp(args[1])\nelse connect(new StdioServerTransport())\nimport { startHttp } from './http.js'",
    "src/http.ts": "export const startHttp = (port) => app.listen(port)\nnew SSEServerTransport(path, response)",
  };
  const { server } = await detect({ "package.json": JSON.stringify(manifest), ...files });
  assert.match(server?.start ?? "", /mcp-proxy.* -- node dist\/index\.js$/);
  const asking = { ...manifest, scripts: { ...manifest.scripts, start: "node dist/index.js --port $PORT" } };
  const { server: asked } = await detect({ "package.json": JSON.stringify(asking), ...files });
  assert.equal(asked?.start, "script:start");
});

test("starts the server of the MCP in a program that Speakeasy generates by its command", async () => {
  const manifest = {
    scripts: { build: "bun src/mcp-server/build.mts && tshy" },
    bin: { mcp: "bin/mcp-server.js" },
    main: "./dist/commonjs/index.js",
    dependencies: { "@modelcontextprotocol/sdk": "1" },
    devDependencies: { "@stricli/core": "1" },
  };
  const files = {
    "src/mcp-server/mcp-server.ts": 'run(buildApplication(buildRouteMap({ routes: { start } }), { name: "mcp" }))',
    "src/mcp-server/cli/start/impl.ts":
      'if (flags.transport === "stdio") connect(new StdioServerTransport())\nelse app.listen(flags.port, new SSEServerTransport(path))',
  };
  const command = { "src/mcp-server/cli/start/command.ts": 'flags: { transport: { default: "stdio" }, port: {} }' };
  const { server } = await detect({ "package.json": JSON.stringify(manifest), ...files, ...command });
  assert.match(server?.start ?? "", /mcp-proxy.* -- node bin\/mcp-server\.js start$/);
  const { server: other } = await detect({ "package.json": JSON.stringify(manifest), ...files });
  assert.doesNotMatch(other?.start ?? "", / start$/);
});

test("does not take checks of a package for its server", async () => {
  const scripts = {
    "verify:types": "node scripts/types.mjs",
    "smoke:web": "node scripts/smoke.mjs",
    "pack:all": "node scripts/pack.mjs",
    web: "node scripts/web.mjs",
  };
  const files = Object.values(scripts).map((script) => [script.replace("node ", ""), ""] as const);
  const detection = await detect({ "package.json": JSON.stringify({ scripts }), ...Object.fromEntries(files) });
  assert.equal(detection.server, null);
  assert.match(JSON.stringify(detection), /These scripts run programs: web\./);
  assert.doesNotMatch(JSON.stringify(detection), /verify:types|smoke:web|pack:all/);
});

test("sets no variable that turns a transport of an MCP server off", async () => {
  const manifest = { scripts: { start: "node index.js" }, dependencies: { "@modelcontextprotocol/sdk": "1" } };
  for (const name of ["DISABLE_SSE", "NO_HTTP", "HTTP_PROXY", "MCP_SSE_DISABLED"]) {
    const { server } = await detect({
      "package.json": JSON.stringify(manifest),
      "index.js": `if (process.env.${name} !== 'true' || process.env.${name} === 'true') other()\nnew StdioServerTransport()\nnew StreamableHTTPServerTransport()\napp.listen(process.env.PORT)`,
    });
    assert.deepEqual(server?.variables ?? {}, {}, name);
  }
});

test("starts the file of a development script of a package whose pnpm-workspace.yaml has only settings", async () => {
  const files = {
    "package.json": JSON.stringify({ scripts: { dev: "tsx watch src/agent.ts" }, devDependencies: { tsx: "4" } }),
    "src/agent.ts": 'import { serve } from "@hono/node-server";\nserve({ port: process.env.PORT });',
  };
  const { server } = await detect({ ...files, "pnpm-workspace.yaml": "onlyBuiltDependencies:\n  - esbuild\n" });
  assert.equal(server?.start, "tsx src/agent.ts");
  const { server: ofRoot } = await detect({ ...files, "pnpm-workspace.yaml": "packages:\n  - apps/*\n" });
  assert.equal(ofRoot, null);
});

test("adds Bun for a start script that leads to it through other scripts", async () => {
  const scripts = {
    start: "npm run start:http",
    "start:http": "cross-env NODE_ENV=development npm run build && npm run serve:http",
    "serve:http": "bun --watch server.ts",
    build: "vite build",
  };
  const addsOf = async (changed: Record<string, string>) => {
    const manifest = { scripts: { ...scripts, ...changed }, dependencies: { "@modelcontextprotocol/sdk": "1" } };
    const { server } = await detect({
      "package.json": JSON.stringify(manifest),
      "server.ts": "new StreamableHTTPServerTransport();\napp.listen(process.env.PORT);",
    });
    return server?.adds.map((name) => name.replace(/@.*/, ""));
  };
  assert.deepEqual(await addsOf({}), ["bun"]);
  assert.deepEqual(await addsOf({ "serve:http": "node server.ts" }), []);
  // Scripts that lead to each other start nothing.
  assert.deepEqual(await addsOf({ "serve:http": "npm run start" }), []);
});
