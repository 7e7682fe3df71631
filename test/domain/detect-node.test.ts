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
const typescript = "--import ./.pierhead-node/node_modules/tsx/dist/loader.mjs";
const host = "node ./.pierhead-node/node_modules/srvx/bin/srvx.mjs serve --prod --host $HOST --port $PORT --entry";

const proxy = "node ./.pierhead-node/node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs --host $HOST --port $PORT --";

/** Projects without a start script: their files, the preset, the start command and the build script. */
const projects: [string, Files, string, string, string?][] = [
  [
    "a TypeScript file without a program for it",
    { "package.json": packageJson(["express"]), "src/server.ts": "app.listen(process.env.PORT)" },
    "express",
    "node --import ./.pierhead-node/node_modules/tsx/dist/loader.mjs src/server.ts",
  ],
  [
    "an application of Hono that opens no port",
    { "package.json": packageJson(["hono"]), "index.js": "const app = new Hono()\nexport default app" },
    "hono",
    `${host} index.js`,
  ],
  [
    "a Worker of Cloudflare that needs nothing of Cloudflare",
    {
      "package.json": packageJson(["hono", "wrangler"], { scripts: { dev: "wrangler dev" } }),
      "wrangler.jsonc": '{\n  "main": "src/worker.ts"\n}',
      "src/worker.ts": "export default { fetch: () => new Response() }",
    },
    "hono",
    `${host.replace("node", `node ${typescript}`)} src/worker.ts`,
  ],
  [
    "the file of a development script",
    {
      "package.json": packageJson(["tsx", "express"], { scripts: { dev: "tsx watch --env-file=.env agent/http.ts" } }),
      "agent/http.ts": "",
    },
    "express",
    "tsx agent/http.ts",
  ],
  [
    "the file that opens the port, not the one with a class",
    {
      "package.json": packageJson(["tsx"]),
      "src/server.ts": "export class Server {}",
      "src/main.ts": "app.listen(port)",
    },
    "node",
    "tsx src/main.ts",
  ],
  [
    "the only program of a package that a build makes",
    {
      "package.json": packageJson(["@modelcontextprotocol/sdk"], {
        bin: { server: "./build/index.js" },
        scripts: { build: "tsc" },
      }),
      "src/server.ts": "",
      "src/index.ts": "app.listen(process.env.PORT)",
    },
    "mcp-typescript",
    "node build/index.js",
    "script:build",
  ],
  [
    "an application of Elysia, which needs Bun",
    {
      "package.json": packageJson(["elysia"], { scripts: { dev: "bun run --watch src/index.ts" } }),
      "src/index.ts": "new Elysia().listen(process.env.PORT)",
    },
    "elysia",
    "bun src/index.ts",
  ],
  [
    "SvelteKit with the adapter for Node",
    { "package.json": packageJson(["@sveltejs/kit", "@sveltejs/adapter-node"], { scripts: { build: "vite build" } }) },
    "sveltekit",
    "node build",
    "script:build",
  ],
  [
    "SvelteKit with a server of its own around it",
    {
      "package.json": packageJson(["@sveltejs/kit", "@sveltejs/adapter-node", "express"], {
        scripts: { build: "vite build", start: "NODE_ENV=production node server.js" },
      }),
      "server.js": "import { handler } from './build/handler.js'\napp.use(handler).listen(process.env.PORT)",
    },
    "sveltekit",
    "script:start",
    "script:build",
  ],
  [
    "a server of Node whose tests run in Bun",
    {
      "package.json": packageJson(["express"]),
      "server.js": "app.listen(process.env.PORT)",
      "server.test.js": 'import { test } from "bun:test"',
    },
    "express",
    "node server.js",
  ],
  [
    "an application beside a tool in Python that speaks over standard input",
    {
      "package.json": packageJson(["express"], { scripts: { start: "node server.js" } }),
      "requirements.txt": "mcp",
      "tool.py": 'if __name__ == "__main__":\n  mcp.run(transport="stdio")',
    },
    "express",
    "script:start",
  ],
  [
    "Astro with the adapter for Node, whose start script is for development",
    {
      "package.json": packageJson(["astro", "@astrojs/node"], { scripts: { start: "astro dev" } }),
      "astro.config.mjs": "",
    },
    "astro",
    "node dist/server/entry.mjs",
    "astro build",
  ],
  [
    "Astro with a server of its own around it",
    {
      "package.json": packageJson(["astro", "@astrojs/node"], { scripts: { start: "node server.mjs" } }),
      "astro.config.ts": "",
    },
    "astro",
    "script:start",
    "astro build",
  ],
  [
    "a server whose documentation is made with Astro",
    { "package.json": packageJson(["hono", "astro"]), "docs/astro.config.mjs": "", "server.js": "serve(app)" },
    "hono",
    "node server.js",
  ],
  [
    "pages of Astro without a server",
    { "package.json": packageJson(["astro"]), "src/pages/index.astro": "" },
    "astro",
    "astro preview --host $HOST --port $PORT",
    "astro build",
  ],
  [
    "TanStack Start with a script for production",
    { "package.json": packageJson(["@tanstack/react-start"], { scripts: { start: "node .output/server/index.mjs" } }) },
    "tanstack-start",
    "script:start",
    "vite build",
  ],
  [
    "TanStack Start without one",
    { "package.json": packageJson(["@tanstack/react-start"], { scripts: { start: "vite dev" } }) },
    "tanstack-start",
    "vite preview --host $HOST --port $PORT",
    "vite build",
  ],
  [
    "AdonisJS from its build, beside which its start script belongs",
    {
      "package.json": packageJson(["@adonisjs/core"], {
        scripts: { start: "node bin/server.js", build: "node ace build" },
      }),
    },
    "adonis",
    "cd build && node bin/server.js",
    "script:build",
  ],
  [
    "Angular with pages of the server",
    {
      "package.json": packageJson(["@angular/ssr", "express"], {
        scripts: { start: "ng serve", "serve:ssr:shop": "node dist/shop/server/server.mjs" },
      }),
    },
    "angular",
    "script:serve:ssr:shop",
    "ng build",
  ],
  [
    "a program that speaks MCP over standard input, through a proxy",
    {
      "package.json": packageJson(["@modelcontextprotocol/sdk"], {
        scripts: { start: "node dist/index.js", build: "tsc" },
      }),
      "src/index.ts": "new StdioServerTransport()",
    },
    "mcp-typescript",
    `${proxy} npm run --silent start`,
    "script:build",
  ],
  [
    "a file that speaks MCP over standard input, with the program that runs it",
    { "package.json": packageJson(["@modelcontextprotocol/sdk", "tsx"]), "src/index.ts": "new StdioServerTransport()" },
    "mcp-typescript",
    `${proxy} npm exec --no -- tsx src/index.ts`,
  ],
  [
    "an MCP server that speaks over standard input unless an argument asks for HTTP",
    {
      "package.json": packageJson(["@modelcontextprotocol/sdk", "tsx"], { scripts: { dev: "tsx scripts/start.ts" } }),
      "scripts/start.ts": "new StdioServerTransport()\napp.listen(port)",
      "scripts/options.ts": "let transport = 'stdio'",
    },
    "mcp-typescript",
    `${proxy} npm exec --no -- tsx scripts/start.ts`,
  ],
  [
    "an MCP server whose script asks for HTTP",
    {
      "package.json": packageJson(["@modelcontextprotocol/sdk"], { scripts: { start: "node server.js --http" } }),
      "server.js": "const { transport } = parse({ default: 'stdio' })\nnew StdioServerTransport()\napp.listen(port)",
    },
    "mcp-typescript",
    "script:start",
  ],
  [
    "an MCP server whose transport a variable chooses",
    {
      "package.json": packageJson(["@modelcontextprotocol/sdk"], { scripts: { start: "node server.js" } }),
      "server.js":
        "let transport = 'stdio'\nif (process.env.TRANSPORT) f()\nnew StdioServerTransport()\napp.listen(port)",
    },
    "mcp-typescript",
    "script:start",
  ],
  [
    "an MCP server of version 2 of the SDK that speaks over standard input",
    {
      "package.json": packageJson(["@modelcontextprotocol/server"], { scripts: { start: "node server.js" } }),
      "server.js": 'import { serveStdio } from "@modelcontextprotocol/server/stdio"\nserveStdio(make)',
    },
    "mcp-typescript",
    `${proxy} npm run --silent start`,
  ],
  [
    "an MCP server over standard input whose other files only mention servers",
    {
      "package.json": packageJson(["@modelcontextprotocol/sdk"], {
        bin: "./dist/transports/stdio.js",
        scripts: { build: "tsup" },
      }),
      "src/transports/stdio.ts": 'import { types } from "../types.js"\nnew StdioServerTransport()',
      "src/types.ts": "/**\n * Deno.serve(handle)\n */\nexport const example = `serve(handle)`",
    },
    "mcp-typescript",
    `${proxy} node dist/transports/stdio.js`,
    "script:build",
  ],
  [
    "the program of a package that the registry of the MCP lists as one over standard input",
    {
      "package.json": packageJson(["@modelcontextprotocol/sdk"], { mcpName: "io.example/mcp", bin: { mcp: "cli.js" } }),
      "server.json": '{"packages": [{"transport": {"type": "stdio"}}]}',
      "index.js": "module.exports = {}",
      "cli.js": "program.parse()",
    },
    "mcp-typescript",
    `${proxy} node cli.js`,
  ],
  [
    "a program that a build makes in bin, with Bun as a tool of the build alone",
    {
      "package.json": packageJson(["@modelcontextprotocol/sdk"], {
        main: "./dist/index.js",
        bin: "bin/mcp-server.js",
        scripts: { build: "bun src/mcp/build.mts" },
      }),
      "src/mcp/build.mts": 'import { build } from "bun"',
      "src/mcp/mcp-server.ts": "new StdioServerTransport()",
    },
    "mcp-typescript",
    `${proxy} node bin/mcp-server.js`,
    "script:build",
  ],
  [
    "pages that Vite builds, without a server",
    {
      "package.json": packageJson(["vite", "ai"], { scripts: { start: "vite", build: "tsc && vite build" } }),
      "index.html": "",
      "src/main.tsx": "createRoot(document.body)",
    },
    "vite",
    "vite preview --host $HOST --port $PORT",
    "script:build",
  ],
  [
    "a server beside such pages",
    { "package.json": packageJson(["vite", "express"]), "index.html": "", "server.js": "app.listen(port)" },
    "express",
    "node server.js",
  ],
  [
    "SvelteKit with another adapter",
    { "package.json": packageJson(["@sveltejs/kit", "@sveltejs/adapter-auto"]) },
    "sveltekit",
    "vite preview --host $HOST --port $PORT",
    "vite build",
  ],
];

for (const [name, files, preset, command, build] of projects) {
  test(`starts ${name}`, async () => {
    const { server } = await detect(files);
    assert.deepEqual([server?.preset, server?.start], [preset, command]);
    assert.equal(server?.build ?? undefined, build);
  });
}

test("adds TypeScript and a host in exact versions, and only where the start needs them", async () => {
  const adds = async (packages: string[], files: Files) =>
    (await detect({ "package.json": packageJson(packages), ...files })).server?.adds;
  const app = { "src/index.ts": "export default app" };
  for (const one of (await adds(["hono", "tsx"], app)) ?? []) assert.match(one, /^(tsx|srvx)@\d+\.\d+\.\d+$/);
  assert.equal((await adds(["hono"], app))?.length, 2);
  assert.equal((await adds(["hono"], { "index.js": "export default app" }))?.length, 1);
  assert.deepEqual(await adds(["tsx"], { "index.ts": "app.listen(1)" }), []);
  assert.deepEqual(await adds(["hono"], { "index.js": "serve(app)\nexport default app" }), []);
});

test("starts a proxy only for an MCP server that speaks over standard input", async () => {
  const found = async (files: Files) => {
    const manifest = packageJson(["@modelcontextprotocol/sdk"], { scripts: { start: "node index.js" } });
    const { server } = await detect({ "package.json": manifest, ...files });
    return [server?.start, server?.hasOwnPort];
  };
  const both = "new StdioServerTransport()\nnew StreamableHTTPServerTransport()\n";
  const typed = `type Transport = "stdio" | "http"\n${both}app.listen(process.env.PORT)`;
  assert.deepEqual(await found({ "index.ts": typed }), ["script:start", false]);
  const defaulted = `${both}const transport = "stdio"\napp.listen(3000)`;
  assert.deepEqual(await found({ "index.js": defaulted }), [`${proxy} npm run --silent start`, false]);
  const manifest = { "package.json": packageJson(["@modelcontextprotocol/sdk"]) };
  const app = {
    "index.js": "new StreamableHTTPTransport()\nexport default app",
    "src/cli.js": "new StdioServerTransport()",
  };
  assert.equal((await detect({ ...manifest, ...app })).server?.start, `${host} index.js`);
  const maker = { "index.js": "export default function make() {}\nmake().connect(new StdioServerTransport())" };
  assert.equal((await detect({ ...manifest, ...maker })).server?.start, `${proxy} node index.js`);
});

test("refuses a Worker that needs the runtime of Cloudflare, with the command that runs it locally", async () => {
  const worker = {
    "package.json": packageJson(["agents"], { scripts: { start: "vite dev" } }),
    "wrangler.toml": "",
    "src/server.ts": 'import { DurableObject } from "cloudflare:workers"',
  };
  const found = await detect(worker);
  assert.equal(found.server, null);
  assert.match("because" in found ? found.because : "", /Cloudflare Worker: src\/server\.ts imports .*wrangler dev/);
});

test("runs a file that exports its application after an imported file has opened the port", async () => {
  const files = { "package.json": packageJson(["express"]), "index.js": 'import "./lib/web.js"\nexport default app' };
  assert.equal((await detect({ ...files, "lib/web.js": "app.listen(port)" })).server?.start, "node index.js");
  assert.equal((await detect({ ...files, "lib/web.js": "" })).server?.start, `${host} index.js`);
});

test("runs the start script of a Node server beside a Worker", async () => {
  const files = (script: string) => ({
    "package.json": packageJson([], { scripts: { start: script } }),
    "wrangler.toml": "",
    "worker/index.ts": 'import { DurableObject } from "cloudflare:workers"',
  });
  assert.equal((await detect(files("node server.js"))).server?.start, "script:start");
  assert.equal((await detect(files("wrangler dev --port $PORT"))).server?.start, "script:start");
  assert.equal((await detect(files("wrangler dev"))).server, null);
});

test("goes on without the build of a server that runs its sources", async () => {
  const built = async (start: string, packages: string[] = []) => {
    const scripts = { start, build: "tsc" };
    const { server } = await detect({ "package.json": packageJson(["express", ...packages], { scripts }) });
    return [server?.build, server?.afterBuild];
  };
  assert.deepEqual(await built("tsx src/server.ts"), [null, "script:build"]);
  assert.deepEqual(await built("NODE_ENV=production node --import tsx src/server.ts"), [null, "script:build"]);
  assert.deepEqual(await built("tsx dist/server.js"), ["script:build", null]);
  assert.deepEqual(await built("node dist/server.js"), ["script:build", null]);
  assert.deepEqual(await built("tsx server.ts", ["vite"]), ["script:build", null]);
});

test("says what functions for Vercel lack", async () => {
  const found = await detect({
    "package.json": packageJson(["mcp-handler"]),
    "vercel.json": "{}",
    "api/server.ts": "",
  });
  assert.match("because" in found ? found.because : "", /functions for Vercel.*start script/);
});

test("sets the variable that makes an MCP server speak over HTTP", async () => {
  const found = async (source: string, packages = ["@modelcontextprotocol/sdk"], start = "node server.js") => {
    const files = { "package.json": packageJson(packages, { scripts: { start } }), "server.js": source };
    return (await detect(files)).server?.variables;
  };
  const chosen = `const t = process.env.MCP_TRANSPORT ?? "stdio"
    t === "http" ? app.listen(1) : new StdioServerTransport()`;
  assert.deepEqual(await found(chosen), { MCP_TRANSPORT: "http" });
  assert.equal(await found(chosen, undefined, "node server.js --http"), undefined);
  const listed = 'z.enum(["stdio", "streamable-http"]).parse(env.TRANSPORT_TYPE); serveStdio(x)';
  assert.deepEqual(await found(`process.${listed}`.replace("parse(env", "parse(process.env")), {
    TRANSPORT_TYPE: "streamable-http",
  });
  const flags = `if (process.env.SSE_LOCAL === 'true' || process.env.HTTP_STREAMABLE_SERVER === 'true') start()
    else server.start({ transportType: "stdio" })`;
  assert.deepEqual(await found(flags, ["fastmcp"]), { HTTP_STREAMABLE_SERVER: "true" });
  assert.equal(await found("process.env.HTTP_PROXY === 'true'; new StdioServerTransport()"), undefined);
  assert.equal(await found(chosen, ["express"]), undefined);
});

test("moves the migration of a database from the build to the start", async () => {
  const found = async (build: string, more: object = {}) => {
    const { server } = await detect({ "package.json": packageJson(["next"], { scripts: { build, ...more } }) });
    return [server?.build, server?.beforeStart];
  };
  assert.deepEqual(await found("tsx lib/db/migrate.ts && next build"), ["next build", ["tsx lib/db/migrate.ts"]]);
  assert.deepEqual(await found("prisma generate && prisma migrate deploy && next build", { prebuild: "x" }), [
    "script:prebuild && prisma generate && next build",
    ["prisma migrate deploy"],
  ]);
  assert.deepEqual(await found("pnpm db:push && next build"), ["next build", ["pnpm db:push"]]);
  for (const whole of ["next build", "prisma migrate deploy", "tsc; prisma migrate deploy && next build"])
    assert.deepEqual(await found(whole), ["script:build", undefined], whole);
});

test("offers the programs of a project that names no server", async () => {
  const samples = {
    "package.json": packageJson(["@a2a-js/sdk"], {
      scripts: { "agents:movie": "tsx agents/movie/index.ts", "a2a:cli": "tsx cli.ts", lint: "node lint.js" },
    }),
    "agents/movie/index.ts": "",
    "cli.ts": "",
    "lint.js": "",
  };
  const because = async (files: Files) => {
    const found = await detect(files);
    return found.server === null ? found.because : "";
  };
  assert.match(await because(samples), /These scripts run programs: agents:movie\. .*"npm", "run", "agents:movie"/);
  const examples = { "package.json": packageJson(["koa"]), "examples/hello/app.js": "app.listen(3000)" };
  assert.match(await because(examples), /These files open a port: examples\/hello\/app\.js\./);
});

test("runs the program of an MCP package, not the module that others import", async () => {
  const manifest = packageJson(["@modelcontextprotocol/sdk"], {
    main: "dist/index.js",
    bin: { server: "dist/transports/stdio.js" },
    scripts: { build: "tsc" },
  });
  const { server } = await detect({
    "package.json": manifest,
    "src/transports/stdio.ts": "new StdioServerTransport()",
  });
  assert.equal(server?.start, `${proxy} node dist/transports/stdio.js`);
});

test("follows the start script to the program that it runs, where a package has one for each transport", async () => {
  const files = {
    "package.json": packageJson(["@modelcontextprotocol/sdk"], {
      scripts: { start: "npm run dev", dev: "tsx src/cli.ts", "start:runtime": "node dist/http.js" },
    }),
    "src/cli.ts": 'import { main } from "./stdio.js"',
    "src/stdio.ts": "new StdioServerTransport()",
    "src/http.ts": "new StreamableHTTPServerTransport(); app.listen(process.env.PORT)",
  };
  assert.equal((await detect(files)).server?.start, `${proxy} npm run --silent start`);
  const both = { ...files, "src/cli.ts": 'import "./stdio.js"; import "./http.js"' };
  assert.equal((await detect(both)).server?.start, "script:start");
});

test("replaces the port of tools that read no PORT", async () => {
  const owns = async (start: string, packages = ["express"]) =>
    (await detect({ "package.json": packageJson(packages, { scripts: { start } }) })).server?.hasOwnPort;
  for (const start of ["vite preview", "nx serve api", "NODE_ENV=production ng serve"])
    assert.equal(await owns(start), true);
  for (const start of ["vite preview --port $PORT", "vite-node server.ts", "node vite.js", "next dev"])
    assert.equal(await owns(start), false, start);
  assert.equal(await owns("node src/main.ts start", ["@livekit/agents"]), true);
  const nest = { "package.json": packageJson(["@nestjs/core"], { scripts: { start: "nest start" } }) };
  assert.equal((await detect({ ...nest, "src/main.ts": "app.listen(3000)" })).server?.hasOwnPort, true);
  assert.equal(
    (await detect({ ...nest, "src/main.ts": "app.listen(process.env.PORT ?? 3000)" })).server?.hasOwnPort,
    false,
  );
});
