import assert from "node:assert/strict";
import { test } from "node:test";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

type Files = Record<string, string>;

const size = 256 * 1024;
const fill = (text: string) => text.repeat(Math.ceil(size / text.length)).slice(0, size);

const scripts = `# uvicorn.run(app)\n[build-system]\n[project.scripts]\n${Array.from({ length: size / 20 }, (_, at) => `s${at} = "pkg.a:f"\n`).join("")}`;

/** The largest texts that are read, for each of which some way to search needs hours. */
const texts: [string, string][] = [
  ["line breaks", fill("\n")],
  ["blanks", fill(" ")],
  ["an assignment of blanks", `a =${fill(" ")}`],
  ["an assignment of line breaks", `a =${fill("\n")}`],
  ["a type of blanks", `a:${fill(" ")}`],
  ["many assignments", fill("a=\n")],
  ["many names", fill("a.")],
  ["imports of dots", `from ${fill(".")}`],
  ["imports of a long name", `from ${fill("a.")}`],
  ["many runs", `if __name__ == 1:\n${fill(".run(")}`],
  ["many A2A applications", fill("a=A2AStarletteApplication(")],
  ["lines of A2A applications", fill("a = A2AStarletteApplication(\n")],
  ["many braces", fill("{")],
  ["commas and blanks", fill(",  ")],
  ["a web command of blanks", `web:${fill(" ")}`],
  ["a web command of cds", `web: ${fill("cd a && ")}`],
  ["a web command of defaults", "web: ".padEnd(size, "$" + "{PORT:-")],
  ["sections", fill("[a")],
  ["escaped quotes", fill('"\\"\\"')],
  ["comments that do not end", fill("/*")],
  ["an application of the MCP SDK with blanks", `createMcpExpressApp(${fill(" ")}`],
  ["many applications of the MCP SDK", fill("createMcpExpressApp({")],
  ["a variable of many transports", `new StdioServerTransport()\nenv.${fill("SSE_")}`],
  ["many scripts", scripts.slice(0, size)],
];

for (const [name, text] of texts) {
  test(`finds the server beside a source of ${name}`, async () => {
    const files: Files = {
      Procfile: text,
      "main.py": "app = FastAPI()",
      "package.json": '{"dependencies":{"@modelcontextprotocol/sdk":"1"}}',
      "requirements.txt": "fastapi",
      "pkg/__main__.py": text,
      "pkg/a.py": text,
      "pkg/a.js": text,
      "pyproject.toml": text,
      "deno.json": text,
      "server.json": text,
    };
    const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
    const { server } = detectServer(await readProjectFacts(reader));
    assert.equal(server?.preset, "fastapi");
  });
}

const keys = Array.from({ length: size / 16 }, (_, at) => `key${at}: 1\n`).join("");
const tables = Array.from({ length: size / 8 }, (_, at) => `[a${at}]\n`).join("");
const features = Array.from({ length: 20 }, (_, at) => `"f${at}"`).join(", ");

for (const [name, file, text] of [
  ["a package of two lines", "environment.yml", `dependencies:\n  - "${"a".repeat(size)}\\nb"\n`],
  ["lists in lists", "environment.yml", `dependencies: ${fill("[")}`],
  ["many keys", "environment.yml", `dependencies: []\n${keys}`],
  ["many tables", "pixi.toml", `[environments]\ndefault = [${features}]\n${tables}`.slice(0, size)],
] as const) {
  test(`finds the server beside an environment of conda with ${name}`, { timeout: 60_000 }, async () => {
    const files: Files = { "main.py": "app = FastAPI()", "requirements.txt": "fastapi", [file]: text };
    const reader = { list: async () => Object.keys(files), read: async (one: string) => files[one] ?? null };
    const { server } = detectServer(await readProjectFacts(reader));
    assert.equal(server?.preset, "fastapi");
  });
}
