import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { childEnvironment } from "../../src/base/child-environment.ts";
import { runBuildCommand } from "../../src/builds/node/build-project.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import type { BuildContext } from "../../src/builds/worker/run-command.ts";
import { begin, filesSource, scratch, writeFiles } from "./fixtures.ts";

/** A package whose build makes the file that it offers, if what it depends on is built. */
const library = (name: string, dependency?: string) => ({
  [`packages/${name}/package.json`]: JSON.stringify({
    name,
    version: "1.0.0",
    exports: { types: "./src/index.ts", default: "./dist/index.js" },
    bin: "./bin.js",
    scripts: { build: "node build.js" },
    ...(dependency === undefined ? {} : { dependencies: { [dependency]: "*" } }),
  }),
  [`packages/${name}/src/index.ts`]: "export default '';",
  [`packages/${name}/bin.js`]: "require('./dist/index.js');",
  [`packages/${name}/build.js`]: `
    const fs = require("node:fs");
    const text = ${dependency === undefined ? '""' : `require(${JSON.stringify(dependency)})`};
    fs.mkdirSync("dist");
    fs.writeFileSync("dist/index.js", "module.exports = " + JSON.stringify(text + "${name} "));`,
});

test("builds the packages of the workspace that a member needs before the member", async () => {
  await using place = await scratch();
  const source = await filesSource(path.join(place.dir, "in"), {
    "package.json": JSON.stringify({ private: true, workspaces: ["packages/*", "apps/*"] }),
    ...library("base"),
    ...library("middle", "base"),
    ...library("unrelated"),
    "packages/plain/package.json": JSON.stringify({
      name: "plain",
      version: "1.0.0",
      exports: { ".": "./index.js" },
      scripts: { build: "exit 1" },
    }),
    "packages/plain/index.js": "module.exports = 'plain';",
    "apps/agent/package.json": JSON.stringify({
      name: "agent",
      scripts: { start: "node server.js" },
      dependencies: { middle: "*", plain: "*" },
    }),
    "apps/agent/server.js": "require('node:http').createServer().listen(process.env.PORT);",
  });
  const { build, log } = begin(place.dir, source, { configPath: "apps/agent/package.json" });
  const result = await build.result;
  assert.ok(result.ok && result.artifact.kind === "directory", log());
  const middle = await readFile(path.join(result.artifact.path, "node_modules/middle/dist/index.js"), "utf8");
  assert.equal(middle, 'module.exports = "base middle "');
  const built = [...log().matchAll(/depends on (\S+) of its workspace/g)].map((match) => match[1]);
  assert.deepEqual(built, ["packages/base", "packages/middle"]);
});

/** Fails as pages do that make a client while Next.js collects them. */
const needsVariables = `
  const { OPENAI_API_KEY, DATABASE_URL, DEBUG = "", OWN_KEY = "" } = process.env;
  if (!OPENAI_API_KEY) throw new Error("The OPENAI_API_KEY environment variable is missing or empty");
  require("node:fs").writeFileSync("built.txt", [OPENAI_API_KEY, new URL(DATABASE_URL).protocol, DEBUG, OWN_KEY].join());`;

test("the steps of an image install and build a project with the repairs of a build on the host", async () => {
  await using place = await scratch();
  const conflicting = { name: "other", version: "1.0.0", peerDependencies: { base: "^2.0.0" } };
  await writeFiles(place.dir, {
    "package.json": JSON.stringify({ private: true, workspaces: ["packages/*", "apps/*"] }),
    ...library("base"),
    "packages/other/package.json": JSON.stringify(conflicting),
    "apps/agent/package.json": JSON.stringify({
      name: "agent",
      scripts: { build: "node build.js" },
      dependencies: { base: "1.0.0", other: "1.0.0" },
    }),
    "apps/agent/build.js": `${needsVariables}require("base");`,
    "apps/agent/.env.example": "DATABASE_URL=\n",
  });
  const program = fileURLToPath(new URL("../../src/builds/image/project-steps.ts", import.meta.url));
  // `npm run` tells programs below it where its own package is. No image has that.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_")));
  const run = (...argv: string[]) =>
    execa(process.execPath, [program, ...argv], { cwd: place.dir, env, extendEnv: false, all: true, reject: false });
  const steps = [
    await run("install", "apps/agent"),
    await run("siblings", "apps/agent"),
    await run("build", "apps/agent", "script:build"),
  ];
  const printed = steps.map(({ all }) => all).join("\n");
  for (const { exitCode } of steps) assert.equal(exitCode, 0, printed);
  assert.match(printed, /Trying again with --legacy-peer-deps/);
  assert.match(printed, /packages\/base of its workspace, which is not built yet/);
  assert.match(printed, /Building again with placeholders for .*OPENAI_API_KEY/);
  const failed = await run("build", "apps/agent", "node", "-e", "process.exit(9)");
  assert.equal(failed.exitCode, 9, "the engine reports the exit code of the program");
});

test("builds again with placeholders when the build needs variables of the running server", async () => {
  await using place = await scratch();
  const files = {
    "package.json": JSON.stringify({ name: "agent", scripts: { build: "node build.js", start: "node server.js" } }),
    "server.js": "require('node:http').createServer().listen(process.env.PORT);",
    ".env.production": "OWN_KEY=committed\n",
    ".env.example": "OPENAI_API_KEY=sk-...\nDATABASE_URL=your database\nDEBUG=1\nOWN_KEY=\n",
  };
  const source = await filesSource(path.join(place.dir, "in"), { ...files, "build.js": needsVariables });
  const { build, log } = begin(place.dir, source, {});
  const result = await build.result;
  assert.ok(result.ok && result.artifact.kind === "directory", log());
  assert.equal(await readFile(path.join(result.artifact.path, "built.txt"), "utf8"), "sk-...,postgres:,,");
  assert.match(log(), /placeholders for OPENAI_API_KEY, DATABASE_URL\./);
});

test("names the fonts that a build could not download, but not for a page that links to them", async () => {
  await using place = await scratch();
  const context: BuildContext = {
    sourceDir: place.dir,
    cacheDir: place.dir,
    env: childEnvironment(),
    log: new BuildLog(() => {}),
    signal: new AbortController().signal,
  };
  const failureOf = (line: string) => {
    const program = `console.error(${JSON.stringify(line)}); process.exit(1)`;
    return runBuildCommand(context, ".", [process.execPath, "-e", program]).then(
      () => "",
      (error: Error) => error.message,
    );
  };
  const said = /^The build downloads fonts from Google .*next\/font\/local/;
  assert.match(await failureOf("Failed to fetch `Inter` from Google Fonts."), said);
  assert.match(await failureOf("Error: getaddrinfo ENOTFOUND fonts.gstatic.com"), said);
  assert.match(await failureOf("request to https://fonts.googleapis.com/css2 failed, reason: "), said);
  const ofDeno = "error: JSR package manifest for '@hono/hono' failed to load. Import 'https://jsr.io/x' failed.";
  assert.match(await failureOf(ofDeno), /^Deno could not download a module .*npm:NAME/);
  assert.doesNotMatch(await failureOf("warning: @import url(https://fonts.googleapis.com/css2) is not first"), said);
});

/** Runs a build in Node. @returns what it wrote. */
async function buildWith(program: string): Promise<string> {
  await using place = await scratch();
  const lines: string[] = [];
  const context: BuildContext = {
    sourceDir: place.dir,
    cacheDir: place.dir,
    env: { ...childEnvironment(), TMPDIR: place.dir },
    log: new BuildLog(({ message }) => void lines.push(message)),
    signal: new AbortController().signal,
  };
  const start = `const file = process.env.NEXT_FONT_GOOGLE_MOCKED_RESPONSES;
    const given = file === undefined ? {} : require(file);
    const urlOf = (name) => \`https://fonts.googleapis.com/css2?family=\${name}:wght@100..900&display=swap\`;\n`;
  await runBuildCommand(context, ".", [process.execPath, "-e", `${start}${program}`]);
  return lines.join("\n");
}

test("builds a Next.js project again without the fonts that it cannot download", async () => {
  // As Turbopack does: it asks for one font after another, and for none in the responses that it was given.
  const output = await buildWith(`const known = JSON.parse(JSON.stringify(given));
    for (const name of ["Geist", "Geist+Mono"]) {
      const url = urlOf(name);
      if (!known[url]?.includes("@font-face")) {
        console.error(\`request to \${url} failed, reason: \nFailed to fetch font \\\`\${name}\\\`.\nURL: \${url}\`);
        process.exit(1);
      }
    }`);
  assert.match(output, /fonts from Google \(Geist\), .*Building again.*\n.*fonts from Google \(Geist Mono\), /s);
});

test("builds a Next.js project again without fonts whose addresses the build does not name", async () => {
  // As webpack does in Next.js 15.5.
  const output = await buildWith(`for (const name of ["Inter", "Geist+Mono"]) {
      if (given[urlOf(name)]?.includes("font-family: '" + name.replace("+", " ") + "'")) continue;
      console.error(\`getaddrinfo ENOTFOUND fonts.googleapis.com\nFailed to fetch \\\`\${name}\\\` from Google Fonts.\`);
      process.exit(1);
    }`);
  assert.match(output, /fonts from Google \(Inter\), .*Building again/s);
});

test("runs a build command instead of the build script of a server that runs its sources", async () => {
  await using place = await scratch();
  const source = await filesSource(path.join(place.dir, "in"), {
    "package.json": JSON.stringify({ scripts: { build: "node build.js script", start: "tsx server.ts" } }),
    "build.js": 'require("node:fs").appendFileSync("built.txt", process.argv[2]);',
    "server.ts": "",
  });
  const { build, log } = begin(place.dir, source, { buildCommand: "node build.js command" });
  const result = await build.result;
  assert.ok(result.ok && result.artifact.kind === "directory", log());
  assert.equal(await readFile(path.join(result.artifact.path, "built.txt"), "utf8"), "command");
});
