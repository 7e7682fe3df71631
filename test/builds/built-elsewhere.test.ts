import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { withBuiltFile } from "../../src/builds/node/start-file.ts";
import { listProject } from "../../src/cli/source/list-project.ts";
import { findProject } from "../../src/cli/source/project.ts";
import { type Files, scratch, writeFiles } from "./fixtures.ts";

async function startAfter(files: Files, argv: string[]) {
  await using place = await scratch();
  await writeFiles(place.dir, files);
  return await withBuiltFile(place.dir, ".", argv);
}

test("starts the file that the build made when the start script names another directory", async () => {
  const nested = { "dist/src/main.js": "", "dist/src/other.js": "", "dist/node_modules/x/main.js": "" };
  assert.deepEqual(await startAfter(nested, ["node", "dist/main"]), {
    argv: ["node", "dist/src/main.js"],
    named: "dist/main",
    found: "dist/src/main.js",
  });
  const withOptions = ["env", "NODE_ENV=production", "node", "--enable-source-maps", "./dist/main.js"];
  assert.deepEqual((await startAfter(nested, withOptions))?.argv.slice(2), [
    "node",
    "--enable-source-maps",
    "dist/src/main.js",
  ]);
});

test("keeps a start command whose file exists, or whose file could be one of several", async () => {
  assert.equal(await startAfter({ "dist/main.js": "", "dist/src/main.js": "" }, ["node", "dist/main"]), null);
  assert.equal(await startAfter({ "dist/main/index.js": "" }, ["node", "dist/main"]), null);
  assert.equal(await startAfter({ "dist/a/main.js": "", "dist/b/main.js": "" }, ["node", "dist/main"]), null);
  assert.equal(await startAfter({ "dist/src/main.js": "" }, ["./node_modules/.bin/tsx", "dist/main.ts"]), null);
  assert.equal(await startAfter({}, ["node", "dist/main"]), null);
});

test("adds the file that the start command of an image names, which loads the one that the build made", async () => {
  await using place = await scratch();
  const made = { "package.json": '{"type":"module"}', "dist/src/main.js": "console.log(import.meta.url)" };
  await writeFiles(place.dir, made);
  const steps = fileURLToPath(new URL("../../src/builds/image/project-steps.ts", import.meta.url));
  const argv = [steps, "start-file", ".", "node", "dist/main"];
  const { all } = await execa(process.execPath, argv, { cwd: place.dir, all: true });
  assert.match(all, /names dist\/main, which does not exist\. Added it: it loads dist\/src\/main\.js/);
  const { stdout } = await execa(process.execPath, ["dist/main.js"], { cwd: place.dir });
  assert.match(stdout, /dist\/src\/main\.js$/);
});

const denoProject = {
  "package.json": JSON.stringify({ private: true, workspaces: ["packages/*"] }),
  "packages/words/package.json": JSON.stringify({
    name: "words",
    version: "1.0.0",
    main: "dist/index.js",
    scripts: { build: "mkdir dist && cp index.js dist/index.js" },
  }),
  "packages/words/index.js": "",
  "apps/agent/deno.json": '{\n  // local packages\n  "links": ["../../packages/words", "../missing"],\n}\n',
  "apps/agent/main.ts": "Deno.serve(() => new Response());\n",
};

test("packs the directories that a Deno project links to, with their workspace", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, denoProject);
  await mkdir(path.join(place.dir, ".git"));
  const project = await findProject(path.join(place.dir, "apps/agent"), undefined);
  const { files } = await listProject(project, new AbortController().signal, undefined);
  assert.equal(project.configPath, "apps/agent/deno.json");
  assert.ok(files.includes("packages/words/package.json") && files.includes("package.json"), files.join(" "));
});

test("builds the packages that a Deno project links to, and leaves out links to directories that are missing", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, { ...denoProject, "apps/agent/deno": "#!/bin/sh\n" });
  const program = fileURLToPath(new URL("../../src/builds/image/project-steps.ts", import.meta.url));
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_")));
  const argv = [program, "build", "apps/agent", "sh", "./deno", "cache", "main.ts"];
  const { exitCode, all } = await execa(process.execPath, argv, {
    cwd: place.dir,
    env,
    extendEnv: false,
    all: true,
    reject: false,
  });
  assert.equal(exitCode, 0, all);
  assert.match(all, /uses packages\/words, which is not built yet/);
  assert.match(all, /deno\.json links to \.\.\/missing, which is not in the source\. Using the published package\./);
  await readFile(path.join(place.dir, "packages/words/dist/index.js"));
  const config = await readFile(path.join(place.dir, "apps/agent/deno.json"), "utf8");
  assert.match(config, /"links": \["\.\.\/\.\.\/packages\/words"\]/);
});
