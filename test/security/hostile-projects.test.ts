import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFile, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { listProject } from "../../src/cli/source/list-project.ts";
import { findProject } from "../../src/cli/source/project.ts";
import { createDirectory } from "../cli/run-cli.ts";

const never = new AbortController().signal;
const git = (directory: string, ...args: string[]) => execFileSync("git", ["-C", directory, ...args]);

/** Replaces names in the index of a repository, as git itself never writes them. The new names have the same length. */
async function renameInIndex(repository: string, names: Record<string, string>): Promise<void> {
  const file = path.join(repository, ".git/index");
  let text = (await readFile(file)).toString("latin1").slice(0, -20);
  for (const [from, to] of Object.entries(names)) {
    assert.ok(from.length === to.length && text.includes(from));
    text = text.replace(from, to);
  }
  const body = Buffer.from(text, "latin1");
  await writeFile(file, Buffer.concat([body, createHash("sha1").update(body).digest()]));
}

const agent = { "pierhead.json": '{"start": ["node", "server.js"]}', "server.js": "" };

test("names in a packed .git that lead out of the project are left out", async () => {
  await using place = await createDirectory({
    "secret/key": "private",
    ...Object.fromEntries(Object.entries(agent).map(([name, text]) => [`project/${name}`, text])),
    ...{ "project/xx/secret/key": "1", "project/aaaa/key": "2" },
  });
  const project = path.join(place.directory, "project");
  git(project, "init", "--quiet");
  git(project, "add", ".");
  await renameInIndex(project, { "xx/secret/key": "../secret/key", "aaaa/key": "link/key" });
  for (const name of ["xx", "aaaa"]) await rm(path.join(project, name), { recursive: true });
  await symlink(path.join(place.directory, "secret"), path.join(project, "link"));
  const { files, leftOut } = await listProject(await findProject(project, undefined), never, undefined);
  assert.deepEqual(files, ["pierhead.json", "server.js"]);
  assert.ok(leftOut.includes("../secret/key") && leftOut.includes("link/key"));
});

test("a repository that names a hidden directory or one without a package beside it is not packed", async () => {
  await using home = await createDirectory({
    ".ssh/id_ed25519": "private",
    "Documents/letter.txt": "private",
    "words/package.json": "{}",
    "code/hidden/package.json": '{"main": "server.js", "dependencies": {"words": "file:../../.ssh"}}',
    "code/plain/requirements.txt": "-e ../../Documents\n",
    "code/plain/pierhead.json": agent["pierhead.json"],
    "code/extends/tsconfig.json": '{"include": ["../../.ssh/*"]}',
    "code/extends/pierhead.json": agent["pierhead.json"],
    "code/graph/langgraph.json": '{"graphs": {"a": "./a.py:a"}, "dependencies": ["../../.ssh"]}',
    "code/fair/package.json": '{"main": "server.js", "dependencies": {"words": "file:../../words"}}',
    "code/fair/server.js": "app.listen(1)",
    "code/fair/pierhead.json": agent["pierhead.json"],
    "code/hidden/server.js": "app.listen(1)",
  });
  for (const name of ["hidden", "plain", "extends", "graph", "fair"]) {
    const project = path.join(home.directory, "code", name);
    git(project, "init", "--quiet");
    const finding = findProject(project, undefined);
    if (name === "fair") assert.equal((await finding).parts?.length, 2);
    else await assert.rejects(finding, /The project names .*(\.ssh|Documents), which is outside of it/, name);
  }
});
