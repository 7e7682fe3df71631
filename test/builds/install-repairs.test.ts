import assert from "node:assert/strict";
import { mkdir, symlink } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { installCommand } from "../../src/builds/node/install-command.ts";
import { refusalIn, retryFor } from "../../src/builds/node/install-retries.ts";
import { findFailedScript, hasFailedMember } from "../../src/builds/node/install-scripts.ts";
import { unbuiltSiblings } from "../../src/builds/node/workspace-siblings.ts";
import { scratch, writeFiles } from "./fixtures.ts";

async function commandFor(files: Record<string, string>, directory = ".") {
  await using place = await scratch();
  await writeFiles(place.dir, files);
  const found = await installCommand(place.dir, directory, "");
  assert.ok(found);
  return found;
}

const pnpm = { "package.json": "{}", "pnpm-lock.yaml": "lockfileVersion: '9.0'\n" };

test("installs a pnpm project without a minimum age of versions when the registry does not report their ages", async () => {
  const command = await commandFor(pnpm);
  const output = [' ERR_PNPM_MISSING_TIME  The metadata of good is missing the "time" field'];
  const retry = retryFor(command, output);
  assert.deepEqual(retry?.options, ["--config.minimumReleaseAge=0"]);
  assert.match(retry?.because ?? "", /registry does not report when versions were published.*\.npmrc\.$/);
  const again = { ...command, argv: [...command.argv, ...(retry?.options ?? [])] };
  assert.equal(retryFor(again, output), null, "one attempt");
  assert.equal(retryFor(await commandFor({ "package.json": "{}", "package-lock.json": "{}" }), output), null);
});

test("tries --legacy-peer-deps for a conflict that stopped npm, and not for one that it overrides", async () => {
  const command = await commandFor({ "package.json": "{}", "package-lock.json": "{}" });
  const stopped = ["npm error code ERESOLVE", "npm error ERESOLVE unable to resolve dependency tree"];
  assert.deepEqual(retryFor(command, stopped)?.options, ["--legacy-peer-deps"]);
  assert.deepEqual(retryFor(command, ["npm ERR! code ERESOLVE"])?.options, ["--legacy-peer-deps"]);
  const overridden = ["npm warn ERESOLVE overriding peer dependency", "npm error code E404"];
  assert.equal(retryFor(command, overridden), null);
});

test("says what to do when a policy of a pnpm project refuses a version, and does not override it", async () => {
  const young = ["[ERR_PNPM_NO_MATURE_MATCHING_VERSION] 1 version does not meet the minimumReleaseAge constraint:"];
  assert.match(refusalIn(young) ?? "", /Deploy later, lock an older version, or .*minimumReleaseAgeExclude/);
  const downgrade = [
    'ERR_PNPM_TRUST_DOWNGRADE  High-risk trust downgrade for "good@1.0.1" (possible package takeover)',
  ];
  assert.match(refusalIn(downgrade) ?? "", /weaker evidence .*trustPolicyExclude/);
  const unchecked = ["ERR_PNPM_TRUST_CHECK_FAIL  Missing time for version 1.0.0 of good in metadata"];
  assert.match(refusalIn(unchecked) ?? "", /registry that does in \.npmrc, or remove trustPolicy/);
  const command = await commandFor(pnpm);
  for (const output of [young, downgrade, unchecked]) assert.equal(retryFor(command, output), null);
  assert.equal(refusalIn(["ERR_PNPM_FETCH_404"]), null);
});

test("installs again without the scripts that a pnpm project does not approve", async () => {
  const output = ["[ERR_PNPM_IGNORED_BUILDS] Ignored build scripts: good@1.0.0."];
  assert.deepEqual(retryFor(await commandFor(pnpm), output)?.options, ["--config.strictDepBuilds=false"]);
});

test("finds the script that failed in a pnpm workspace", () => {
  const failed = [".../node_modules/@x/bad postinstall: Failed", " ELIFECYCLE  Command failed with exit code 3."];
  assert.equal(findFailedScript(failed), "@x/bad");
  assert.equal(hasFailedMember(failed), false);
  const member = ["packages/docs postinstall: Failed", "[ELIFECYCLE] Command failed with exit code 1."];
  assert.equal(findFailedScript(member), null);
  assert.equal(hasFailedMember(member), true);
  assert.equal(hasFailedMember([". postinstall: Failed"]), false);
});

test("selects what a member and the root of a pnpm workspace need for a retry", async () => {
  const files = { ...pnpm, "pnpm-workspace.yaml": "packages: ['apps/*']\n", "apps/web/package.json": "{}" };
  assert.deepEqual((await commandFor(files, "apps/web")).onlyMember, ["--filter={./apps/web}...", "--filter={.}"]);
  assert.equal((await commandFor(files)).onlyMember, null);
});

test("installs a workspace that only pnpm-workspace.yaml describes with pnpm", async () => {
  const files = {
    "package.json": "{}",
    "pnpm-workspace.yaml": "packages: ['apps/*']\n",
    "apps/web/package.json": "{}",
  };
  const { argv, cwd } = await commandFor(files, "apps/web");
  assert.deepEqual([argv.slice(-2), cwd], [["pnpm", "install"], "."]);
});

test("installs only what a member needs of a pnpm workspace with many members", async () => {
  const members = (count: number) =>
    Array.from({ length: count }, (_, at) => `  apps/a${at}:\n    dependencies:\n      x:\n        version: 1.0.0\n`);
  const argvWith = async (count: number, directory = "apps/a1") => {
    const lock = `lockfileVersion: '9.0'\nimporters:\n${members(count).join("\n")}\npackages:\n  x@1.0.0: {}\n`;
    const workspace = { "pnpm-workspace.yaml": "packages: ['apps/*']\n", "apps/a1/package.json": "{}" };
    return (await commandFor({ ...pnpm, "pnpm-lock.yaml": lock, ...workspace }, directory)).argv.join(" ");
  };
  assert.match(await argvWith(30), /pnpm install --frozen-lockfile --filter=\{\.\/apps\/a1\}\.\.\. --filter=\{\.\}$/);
  assert.match(await argvWith(5), /--frozen-lockfile$/);
  // A graph may be in a directory below the member that has its packages.
  assert.match(await argvWith(30, "apps/a1/agents/one"), / --filter=\{\.\/apps\/a1\}\.\.\. /);
});

test("builds the packages of a workspace that a graph below a member needs", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, {
    "package.json": '{"workspaces": ["apps/*", "libs/*"]}',
    "package-lock.json": "{}",
    "apps/a/package.json": '{"name": "a", "scripts": {"build": "tsc"}, "dependencies": {"words": "*"}}',
    "apps/a/agents/one/langgraph.json": "{}",
    "libs/words/package.json": '{"name": "words", "main": "dist/words.js", "scripts": {"build": "tsc"}}',
  });
  await mkdir(path.join(place.dir, "node_modules"));
  await symlink("../libs/words", path.join(place.dir, "node_modules/words"));
  assert.deepEqual(await unbuiltSiblings(place.dir, "apps/a/agents/one"), ["libs/words"]);
  assert.deepEqual(await unbuiltSiblings(place.dir, "apps/a"), ["libs/words"]);
});
