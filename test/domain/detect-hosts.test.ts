import assert from "node:assert/strict";
import { test } from "node:test";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

type Files = Record<string, string>;

async function detect(files: Files) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

const packageJson = (packages: string[], more: object = {}) =>
  JSON.stringify({ dependencies: Object.fromEntries(packages.map((name) => [name, "1"])), ...more });

test("starts a proxy for an MCP server that compares its transport with stdio, unless HTTP is the default", async () => {
  const found = async (source: string) => {
    const files = { "package.json": packageJson(["@modelcontextprotocol/server", "tsx"]), "server.ts": source };
    return (await detect(files)).server?.start;
  };
  const serving = `transport === "stdio" ? serveStdio(make) : serve(createMcpHandler(make))`;
  assert.match((await found(`const { transport } = parseArgs()\n${serving}`)) ?? "", /mcp-proxy.* tsx server\.ts$/);
  assert.equal(await found(`const transport = args.transport ?? "http"\n${serving}`), "tsx server.ts");
});

test("finds the only host name that a server accepts", async () => {
  const found = async (source: string, packages = ["@modelcontextprotocol/sdk"], start = "node server.js") => {
    const files = { "package.json": packageJson(packages, { scripts: { start } }), "server.js": source };
    return (await detect(files)).server?.localHost?.host;
  };
  assert.equal(await found("createMcpExpressApp().listen(process.env.PORT)"), "localhost");
  assert.equal(await found("const app = createMcpHonoApp({ host: HOST })"), "localhost");
  assert.equal(await found('const app = createMcpExpressApp({ host: "0.0.0.0" })'), undefined);
  assert.equal(await found("const app = createMcpExpressApp({ allowedHosts: names })"), undefined);
  const protectedTransport = "enableDnsRebindingProtection: true, allowedHosts:";
  assert.equal(await found(`new Transport({ ${protectedTransport} ["127.0.0.1", "localhost"] })`), "127.0.0.1");
  assert.equal(await found(`new Transport({ ${protectedTransport} [\`localhost:\${port}\`] })`), "localhost:*");
  assert.equal(await found(`new Transport({ ${protectedTransport} ["agents.example.com"] })`), undefined);
  assert.equal(await found("", ["@sveltejs/kit"]), "localhost:*");
  assert.equal(await found("export default { preview: { allowedHosts: true } }", ["@sveltejs/kit"]), undefined);
});

test("starts the production script when the usual script watches the source files", async () => {
  const watching = "node --watch src/index.ts | pino-pretty";
  const start = async (scripts: Record<string, string>) =>
    (await detect({ "package.json": packageJson(["fastify"], { scripts }) })).server?.start;
  assert.equal(await start({ start: watching, "start:prod": "node src/index.ts" }), "script:start:prod");
  assert.equal(await start({ start: "nodemon app.js", serve: "vite preview" }), "script:start");
  assert.equal(await start({ start: "node app.js", "start:prod": "node dist/app.js" }), "script:start");
  assert.equal(await start({ start: watching, "start:prod": "tsx watch src/index.ts" }), "script:start");
});

test("refuses a Cloudflare agent that imports a submodule of its SDK, even if a development server starts it", async () => {
  const files = {
    "package.json": packageJson(["agents", "@modelcontextprotocol/sdk"], { scripts: { start: "vite dev" } }),
    "wrangler.jsonc": '{ "main": "src/server.ts" }',
    "src/server.ts": 'import { McpAgent } from "agents/mcp";\nexport class MyMCP extends McpAgent {}\n',
  };
  const { server, because } = { because: "", ...(await detect(files)) };
  assert.equal(server, null);
  assert.match(because, /This project is a Cloudflare Worker: src\/server\.ts imports/);
});
