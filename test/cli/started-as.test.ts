import assert from "node:assert/strict";
import { chmod, symlink } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { commandTable } from "../../src/cli/command-table.ts";
import { withNpx } from "../../src/cli/terminal/started-as.ts";
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
  const hint = async (...directories: string[]) => {
    const PATH = directories.map((one) => path.join(bins.directory, one)).join(path.delimiter);
    const { stdout } = await runCli(["whoami", "--help"], { env: { PATH } });
    return /\$ (.*)/.exec(stdout)?.[1];
  };
  assert.equal(await hint("bin"), "pierhead whoami");
  assert.equal(await hint("other"), "npx pierhead whoami");
  assert.equal(await hint("app/node_modules/.bin"), "npx pierhead whoami", "a script of npm");
  await symlink("other", path.join(bins.directory, "other"));
  assert.equal(await hint("other", "bin"), "pierhead whoami", "a directory that cannot be read");
  assert.equal(await hint("other"), "npx pierhead whoami");
});

test("puts npx before every command of the program, and not into sentences about it", async () => {
  const names = commandTable.filter(({ hidden }) => hidden !== true).flatMap(({ name, alias = name }) => [name, alias]);
  for (const name of names) {
    const { stdout } = await runCli([name, "--help"], { env: { npm_command: "exec" } });
    assert.doesNotMatch(stdout, new RegExp(`(?<!npx )pierhead (${names.join("|")})\\b`), name);
  }
  const text = 'Next: pierhead logs a. "pierhead why a" (pierhead is a program.)';
  assert.equal(
    withNpx(["logs", "why"])(text),
    'Next: npx pierhead logs a. "npx pierhead why a" (pierhead is a program.)',
  );
});
