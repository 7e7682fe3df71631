import assert from "node:assert/strict";
import { readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { execa } from "execa";
import { beforeCommand } from "../../src/builds/node/run-script.ts";
import { begin, filesSource, scratch } from "./fixtures.ts";

const project = (scripts: Record<string, string>) => ({
  "package.json": JSON.stringify({ name: "plain", version: "1.0.0", scripts }),
  "server.js":
    'require("node:http").createServer((_, response) => response.end("hello")).listen(process.env.PORT, process.env.HOST);\n',
});

async function build(dir: string, files: Record<string, string>) {
  const source = await filesSource(path.join(dir, "in"), files);
  const { build, log } = begin(dir, source, { key: "built" });
  const result = await build.result;
  assert.ok(result.ok && result.artifact.kind === "directory", log());
  return { artifact: result.artifact, log: log() };
}

test("starts a piped script whose environment file is not in the source", async () => {
  await using place = await scratch();
  const { artifact, log } = await build(place.dir, {
    ...project({
      start: "node --env-file=.env -p 1 && npm run serve",
      serve: "node --env-file config/.env -p 2 | cat",
      dev: "node --env-file=.env.development server.js",
    }),
  });
  assert.match(log, /Added an empty \.env, because a script names it/);
  assert.match(log, /Added an empty config\/\.env/);
  assert.doesNotMatch(log, /\.env\.development/);
  const ran = await execa("npm", ["run", "start"], { cwd: artifact.path, reject: false });
  assert.deepEqual([ran.exitCode, ran.stdout.match(/^\d$/gm)], [0, ["1", "2"]], ran.stderr);
});

test("keeps an environment file of the source, and writes no file outside the source", async () => {
  await using place = await scratch();
  await build(place.dir, {
    ...project({ start: "node --env-file=base.env --env-file=../above/.env --env-file=/tmp/.env server.js | cat" }),
    "base.env": "GREETING=hello\n",
  });
  const built = path.join(place.dir, "artifacts/built");
  assert.equal(await readFile(path.join(built, "base.env"), "utf8"), "GREETING=hello\n");
  await assert.rejects(readFile(path.join(place.dir, "above/.env"), "utf8"), { code: "ENOENT" });
});

test("writes no environment file through a link that leaves the source", async () => {
  await using place = await scratch();
  const files = project({ start: "node --env-file=linked/.env --env-file=linked/new/.env server.js | cat" });
  const source = await filesSource(path.join(place.dir, "in"), files);
  await symlink(place.dir, path.join(place.dir, "in/linked"));
  await begin(place.dir, source).build.result;
  await assert.rejects(readFile(path.join(place.dir, ".env"), "utf8"), { code: "ENOENT" });
  await assert.rejects(readFile(path.join(place.dir, "new/.env"), "utf8"), { code: "ENOENT" });
});

test("runs programs of the machine and of packages before the start", async () => {
  await using place = await scratch();
  const source = { ...project({}), "node_modules/.bin/own": '#!/bin/sh\necho "own $1"\n' };
  await filesSource(place.dir, source);
  await execa("chmod", ["+x", path.join(place.dir, "node_modules/.bin/own")]);
  const run = async (words: string[]) => {
    const [program = "", ...rest] = beforeCommand(words);
    const { stdout } = await execa(program, rest, { cwd: place.dir });
    return stdout;
  };
  assert.equal(await run(["echo", "it's ready"]), "it's ready");
  assert.equal(await run(["own", "two words"]), "own two words");
});
