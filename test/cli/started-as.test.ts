import assert from "node:assert/strict";
import { chmod, symlink } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { commandTable } from "../../src/cli/command-table.ts";
import { commandNames, commandsAsStarted } from "../../src/cli/terminal/started-as.ts";
import { createDirectory, runCli } from "./run-cli.ts";

test("names commands with npx in hints, help and JSON when npx started this one", async () => {
  const env = { npm_command: "exec" };
  const unreachable = ["list", "--url", "http://127.0.0.1:9"];
  const { stderr } = await runCli(unreachable, { env });
  assert.match(stderr, /Start a server: {3}npx pierhead up/);
  const { stdout: json } = await runCli([...unreachable, "--json"], { env });
  assert.match(JSON.stringify(JSON.parse(json).error.hints), /npx pierhead doctor/);
  const { stdout: help } = await runCli(["env", "--help"], { env });
  assert.match(help, /npx pierhead env /);
  assert.doesNotMatch(help, /npx npx/);
  assert.match((await runCli(unreachable)).stderr, /Start a server: {3}pierhead up/);
});

test("names commands with npx when the program is not on the PATH of the user's shell", async () => {
  await using bins = await createDirectory({ "bin/pierhead": "", "app/node_modules/.bin/pierhead": "" });
  for (const one of ["bin/pierhead", "app/node_modules/.bin/pierhead"])
    await chmod(path.join(bins.directory, one), 0o755);
  const hint = (...directories: string[]) => {
    const PATH = directories.map((one) => path.join(bins.directory, one)).join(path.delimiter);
    return commandsAsStarted({ PATH })('Next: pierhead logs a. "pierhead why a" (pierhead is a program.)');
  };
  const bare = 'Next: pierhead logs a. "pierhead why a" (pierhead is a program.)';
  assert.equal(hint("bin"), bare);
  const npx = 'Next: npx pierhead logs a. "npx pierhead why a" (pierhead is a program.)';
  assert.equal(hint("other"), npx);
  assert.equal(hint("app/node_modules/.bin"), npx, "a script of npm");
  await symlink("other", path.join(bins.directory, "other"));
  assert.equal(hint("other", "bin"), bare, "a directory that cannot be read");
  assert.equal(hint("other"), npx);
});

test("knows every command that a hint may name", () => {
  const names = commandTable.filter(({ hidden }) => hidden !== true).flatMap(({ name, alias = name }) => [name, alias]);
  assert.deepEqual(
    [...new Set(names)].filter((name) => !commandNames.includes(name)),
    [],
  );
});
