import { hello, javascript, manifest, mcp, nodeServer, ofAnyHost, type Server, server } from "./server-project.ts";

// JavaScript servers without a configuration file, one per preset of src/domain/detection/presets.ts and per way to package them.

/** A workspace whose member needs another member. */
const workspace = (root: object, member: string) => ({
  "package.json": { name: "root", private: true, ...root },
  "packages/words/package.json": { name: "words", version: "1.0.0", type: "module", exports: "./index.js" },
  "packages/words/index.js": 'export const word = "hello";\n',
  "apps/web/package.json": {
    name: "web",
    version: "1.0.0",
    private: true,
    type: "module",
    scripts: { start: "node server.js" },
    dependencies: { words: member, "is-odd": "3.0.1" },
  },
  "apps/web/server.js": `import "is-odd";\nimport { word } from "words";\n${nodeServer("word")}`,
});

const workspaces = { workspaces: ["apps/*", "packages/*"] };
const inWeb: Partial<Server> = { configPath: "apps/web/package.json" };

export const javascriptServers = [
  javascript(
    "express with a start script",
    {
      "package.json": manifest({ express: "5.1.0" }, { scripts: { start: "node --env-file=.env server.js" } }),
      "server.js": `require("express")().get("/hello", (_, r) => r.send("hello from " + process.env.PUBLIC_URL)).listen(process.env.PORT, process.env.HOST);\n`,
    },
    /Recognized Express: express in package\.json\./,
    { ask: [{ path: "/hello", answers: /hello from http:\/\/.+/ }] },
  ),
  javascript(
    "hono in typescript",
    {
      "package.json": manifest(
        { hono: "4.10.6", "@hono/node-server": "1.19.6" },
        { type: "module", devDependencies: { tsx: "4.20.6" } },
      ),
      "src/index.ts": `import { serve } from "@hono/node-server";\nimport { Hono } from "hono";\nconst app: Hono = new Hono().get("/hello", (c) => c.text("hello"));\nserve({ fetch: app.fetch, port: Number(process.env.PORT), hostname: process.env.HOST });\n`,
    },
    /Recognized Hono.*|Start: \.\/node_modules\/\.bin\/tsx src\/index\.ts/,
  ),
  javascript(
    "hono that exports its application",
    {
      "package.json": manifest({ hono: "4.10.6" }, { scripts: { dev: "wrangler dev src/index.tsx" } }),
      "tsconfig.json": { compilerOptions: { jsx: "react-jsx", jsxImportSource: "hono/jsx" } },
      "src/page.tsx": "export const Page = ({ word }: { word: string }) => <b>{word}</b>;\n",
      "src/index.tsx": `import { Hono } from "hono";\nimport { Page } from "./page";\nconst app = new Hono();\napp.get("/hello", (c) => c.html(<Page word="hello" />));\nexport default app;\n`,
    },
    /Start: node --import \.\/\.pierhead-node\/.*srvx/,
    { ask: [{ path: "/hello", answers: /<b>hello<\/b>/ }] },
  ),
  javascript(
    "fastify with a build",
    {
      "package.json": manifest(
        { fastify: "5.6.2" },
        { type: "module", scripts: { build: "cp main.js server.js", start: "node server.js" } },
      ),
      "main.js": `import fastify from "fastify";\nconst app = fastify();\napp.get("/hello", () => "hello");\napp.get("/health", () => "well");\nawait app.listen({ port: Number(process.env.PORT), host: process.env.HOST });\n`,
    },
    /Recognized Fastify/,
  ),
  javascript(
    "nestjs",
    {
      "package.json": manifest(
        {
          "@nestjs/common": "11.1.9",
          "@nestjs/core": "11.1.9",
          "@nestjs/platform-express": "11.1.9",
          "reflect-metadata": "0.2.2",
          rxjs: "7.8.2",
          typescript: "5.9.3",
        },
        { scripts: { build: "tsc", "start:prod": "node dist/main" } },
      ),
      "tsconfig.json": {
        compilerOptions: {
          module: "commonjs",
          target: "es2022",
          outDir: "dist",
          rootDir: "src",
          strict: true,
          experimentalDecorators: true,
          emitDecoratorMetadata: true,
          skipLibCheck: true,
          types: [],
          lib: ["es2022", "dom"],
        },
        include: ["src"],
      },
      "src/main.ts": `import "reflect-metadata";\nimport { Controller, Get, Module } from "@nestjs/common";\nimport { NestFactory } from "@nestjs/core";\ndeclare const process: any;\n@Controller()\nclass Hello {\n  @Get("hello") hello() { return "hello"; }\n}\n@Module({ controllers: [Hello] })\nclass App {}\nNestFactory.create(App).then((app) => app.listen(process.env.PORT, process.env.HOST));\n`,
    },
    /Recognized NestJS/,
  ),
  javascript(
    "vercel ai sdk",
    {
      "package.json": manifest({ ai: "5.0.98" }, { type: "module", scripts: { start: "node server.js" } }),
      "server.js": `import { simulateReadableStream } from "ai";\nimport { createServer } from "node:http";\ncreateServer(async (_, response) => {\n  for await (const part of simulateReadableStream({ chunks: ["hel", "lo"] })) response.write(part);\n  response.end();\n}).listen(process.env.PORT, process.env.HOST);\n`,
    },
    /Recognized Vercel AI SDK/,
  ),
  javascript(
    "mcp typescript sdk",
    {
      "package.json": manifest(
        { "@modelcontextprotocol/sdk": "1.22.0", express: "5.1.0" },
        { type: "module", main: "server.js" },
      ),
      "server.js": `import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";\nimport { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";\nimport express from "express";\nconst app = express();\napp.use(express.json());\napp.post("/mcp", async (request, response) => {\n  const server = new McpServer({ name: "greeter", version: "1.0.0" });\n  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });\n  await server.connect(transport);\n  await transport.handleRequest(request, response, request.body);\n});\napp.listen(process.env.PORT, process.env.HOST);\n`,
    },
    /Recognized MCP TypeScript SDK/,
    { ask: mcp },
  ),
  javascript(
    "mcp typescript sdk that answers only localhost",
    {
      "package.json": manifest(
        { "@modelcontextprotocol/sdk": "1.32.2", express: "5.1.0" },
        { type: "module", main: "server.js" },
      ),
      "server.js": `import { createMcpExpressApp } from "@modelcontextprotocol/sdk/server/express.js";\nimport { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";\nimport { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";\nconst app = createMcpExpressApp();\napp.post("/mcp", async (request, response) => {\n  const server = new McpServer({ name: "greeter", version: "1.0.0" });\n  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });\n  await server.connect(transport);\n  await transport.handleRequest(request, response, request.body);\n});\napp.listen(process.env.PORT, process.env.HOST);\n`,
    },
    /accepts only requests for localhost/,
    { ask: ofAnyHost },
  ),
  server({
    name: "deno",
    files: {
      "deno.json": {
        imports: { hono: "npm:hono@4.12.0" },
        tasks: { start: "deno run --allow-net --allow-env main.ts" },
      },
      "main.ts": `import { Hono } from "hono";\nconst app = new Hono();\napp.get("/hello", (context) => context.text("hello"));\nDeno.serve({ port: 9000 }, app.fetch);\n`,
    },
    needs: ["npm"],
    configPath: "deno.json",
    ask: hello,
    log: [/Recognized Deno: its start task in deno\.json/],
  }),
  javascript(
    "variables for browsers, which the build writes into its output",
    {
      "package.json": manifest({}, { type: "module", scripts: { start: "node server.js", build: "node build.js" } }),
      "build.js": `import { writeFileSync } from "node:fs";\nwriteFileSync("page.json", JSON.stringify([process.env.NEXT_PUBLIC_GREETING, process.env.API_KEY ?? "none"]));\n`,
      "server.js": nodeServer('require("node:fs").readFileSync("page.json")').replace(
        "import",
        'import { createRequire } from "node:module";\nconst require = createRequire(import.meta.url);\nimport',
      ),
    },
    /variables of the deployment into the code for browsers: NEXT_PUBLIC_GREETING/,
    {
      secrets: { NEXT_PUBLIC_GREETING: "good morning", API_KEY: "secret" },
      ask: [{ path: "/hello", answers: /\["good morning","none"\]/ }],
    },
  ),
  javascript(
    "mcp over standard input",
    {
      "package.json": manifest(
        { "@modelcontextprotocol/sdk": "1.22.0" },
        { type: "module", scripts: { start: "node index.js" } },
      ),
      "index.js": `import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";\nimport { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";\nawait new McpServer({ name: "greeter", version: "1.0.0" }).connect(new StdioServerTransport());\n`,
    },
    /Recognized MCP TypeScript SDK/,
    { ask: mcp },
  ),
  javascript(
    "mcp over standard input with version 2 of the sdk",
    {
      "package.json": manifest(
        { "@modelcontextprotocol/server": "2.4.0" },
        { type: "module", scripts: { start: "node index.js" } },
      ),
      "index.js": `import { McpServer } from "@modelcontextprotocol/server";\nimport { serveStdio } from "@modelcontextprotocol/server/stdio";\nserveStdio(() => new McpServer({ name: "greeter", version: "1.0.0" }));\n`,
    },
    /Start: node .*mcp-proxy/,
    { ask: mcp },
  ),
  javascript(
    "a port of its own, and a build that migrates a database",
    {
      "package.json": manifest(
        {},
        {
          type: "module",
          scripts: { start: "node server.js", build: "node migrate.js && node --check server.js" },
        },
      ),
      "migrate.js": `import { writeFileSync } from "node:fs";\nif (!process.env.DATABASE_URL) throw new Error("DATABASE_URL is not set");\nwriteFileSync(process.env.HOME + "/migrated", "");\n`,
      "server.js": `import { existsSync } from "node:fs";\nimport { createServer } from "node:http";\nconst text = existsSync(process.env.HOME + "/migrated") ? "hello" : "no tables";\ncreateServer((_, response) => response.end(text)).listen(4173, "localhost");\n`,
    },
    /Start: node migrate\.js && node server\.js/,
    { ask: hello, secrets: { DATABASE_URL: "postgres://127.0.0.1:1/none" } },
  ),
  javascript(
    "peers that disagree",
    {
      "package.json": manifest(
        { react: "19.2.0", "react-test-renderer": "16.14.0" },
        { type: "module", scripts: { start: "node server.js" } },
      ),
      "server.js": nodeServer(),
    },
    /Trying again with --legacy-peer-deps/,
  ),
  javascript(
    "procfile",
    {
      "package.json": manifest({}, { type: "module" }),
      "release.js": `import { writeFileSync } from "node:fs";\nwriteFileSync("released", "released");\n`,
      "main.js": `import { readFileSync } from "node:fs";\n${nodeServer('process.argv[2] + process.env.TONE + readFileSync("released", "utf8")')}`,
      Procfile: "release: node release.js\nweb: TONE=! node main.js hello-$PORT\n",
    },
    /Recognized .*Procfile/,
    { configPath: "Procfile", ask: [{ path: "/", answers: /^hello-\d+!released$/ }] },
  ),
  javascript(
    "a pnpm lock file that lags behind",
    {
      "package.json": manifest({ "is-odd": "3.0.1" }, { type: "module", scripts: { start: "node server.js" } }),
      "pnpm-lock.yaml": "lockfileVersion: '9.0'\nimporters:\n  .: {}\n",
      "server.js": `import "is-odd";\n${nodeServer()}`,
    },
    /pnpm-lock\.yaml does not fit package\.json/,
  ),
  javascript(
    "a program that pm2 would start after another one",
    {
      "package.json": manifest(
        {},
        {
          type: "module",
          scripts: {
            start: "node prepare.js && npm run daemon",
            daemon: "pm2 start ecosystem.config.json --no-daemon",
          },
        },
      ),
      "prepare.js": 'import { writeFileSync } from "node:fs";\nwriteFileSync("tone.txt", "very");\n',
      "ecosystem.config.json": { apps: [{ name: "server", script: "server.js", env: { TONE: "calm" } }] },
      "server.js": `import { readFileSync } from "node:fs";\n${nodeServer('readFileSync("tone.txt") + " " + process.env.TONE')}`,
    },
    /Start: sh -c 'node prepare\.js && exec env TONE=calm node server\.js'/,
    { ask: [{ path: "/", answers: /^very calm$/ }] },
  ),
  javascript(
    "a bun lock file with a version that does not exist",
    {
      "package.json": manifest({ "is-odd": "^3.0.0" }, { type: "module", scripts: { start: "node server.js" } }),
      "bun.lock": `{\n  "lockfileVersion": 1,\n  "workspaces": {\n    "": {\n      "name": "server",\n      "dependencies": {\n        "is-odd": "^3.0.0",\n      },\n    },\n  },\n  "packages": {\n    "is-number": ["is-number@6.0.99", "", {}, ""],\n\n    "is-odd": ["is-odd@3.0.0", "", { "dependencies": { "is-number": "^6.0.0" } }, ""],\n  }\n}\n`,
      "server.js": `import { createRequire } from "node:module";\nimport "is-odd";\nconst { version } = createRequire(import.meta.url)("is-odd/package.json");\n${nodeServer('"is-odd " + version')}`,
    },
    /bun\.lock names is-number@6\.0\.99, which the registry does not have\. .* the other versions stay\./,
    { ask: [{ path: "/", answers: /^is-odd 3\.0\.0$/ }] },
  ),
  javascript("npm workspace", workspace(workspaces, "1.0.0"), /Recognized Node\.js/, inWeb),
  javascript(
    "pnpm workspace",
    {
      ...workspace({ packageManager: "pnpm@10.22.0" }, "workspace:*"),
      "pnpm-workspace.yaml": "packages: ['apps/*', 'packages/*']\n",
      "pnpm-lock.yaml": `lockfileVersion: '9.0'\nsettings:\n  autoInstallPeers: true\n  excludeLinksFromLockfile: false\nimporters:\n  .: {}\n  apps/web:\n    dependencies:\n      is-odd:\n        specifier: 3.0.1\n        version: 3.0.1\n      words:\n        specifier: workspace:*\n        version: link:../../packages/words\n  packages/words: {}\npackages:\n  is-number@6.0.0:\n    resolution: {integrity: sha512-Wu1VHeILBK8KAWJUAiSZQX94GmOE45Rg6/538fKwiloUu21KncEkYGPqob2oSZ5mUT73vLGrHQjKw3KMPwfDzg==}\n    engines: {node: '>=0.10.0'}\n  is-odd@3.0.1:\n    resolution: {integrity: sha512-CQpnWPrDwmP1+SMHXZhtLtJv90yiyVfluGsX5iNCVkrhQtU3TQHsUWPG9wkdk9Lgd5yNpAg9jQEo90CBaXgWMA==}\n    engines: {node: '>=4'}\nsnapshots:\n  is-number@6.0.0: {}\n  is-odd@3.0.1:\n    dependencies:\n      is-number: 6.0.0\n`,
    },
    /npm runs pnpm/,
    inWeb,
  ),
  javascript(
    "yarn 4 workspace",
    { ...workspace({ ...workspaces, packageManager: "yarn@4.11.0" }, "workspace:*") },
    /yarn install --no-immutable/,
    inWeb,
  ),
  javascript(
    "yarn 1 workspace",
    workspace({ ...workspaces, packageManager: "yarn@1.22.22" }, "1.0.0"),
    /yarn@1\.22\.22 -- yarn install/,
    inWeb,
  ),
  javascript("bun workspace", workspace({ ...workspaces, packageManager: "bun@1.3.2" }, "workspace:*"), /bun/, inWeb),
];
