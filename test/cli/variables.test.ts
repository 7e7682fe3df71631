import assert from "node:assert/strict";
import { test } from "node:test";
import { readVariables } from "../../src/cli/deployments/variables.ts";
import type { Session } from "../../src/cli/session.ts";
import { deploymentExample } from "../../src/contract/examples.ts";
import { startAnswering } from "../client/answering.ts";
import { createDirectory, runCli } from "./run-cli.ts";

test("reads a dotenv file with a byte order mark and Windows line breaks", async () => {
  await using files = await createDirectory({
    ".env": '\uFEFFFIRST=one\r\nSECOND="two words"\r\nexport THIRD=3 # a comment\r\nEMPTY= \r\nLAST=4\r\n',
  });
  const session = {
    context: { cwd: files.directory, signal: new AbortController().signal },
    terminal: { say: (text: string) => assert.equal(text, "Left out, because they are empty: EMPTY") },
  } as unknown as Session;
  assert.deepEqual(await readVariables(session, ".env"), [
    { name: "FIRST", value: "one" },
    { name: "SECOND", value: "two words" },
    { name: "THIRD", value: "3" },
    { name: "LAST", value: "4" },
  ]);
});

test("lists the variables of a deployment without the word list", async () => {
  const support = { ...deploymentExample, name: "support", secrets: [{ name: "TOKEN", value: "t-1" }] };
  await using server = await startAnswering(() => ({ status: 200, body: { resources: [support], offset: 1 } }));
  const run = (...argv: string[]) => runCli(["env", ...argv, "--url", server.url]);
  assert.match((await run("support")).stdout, /^TOKEN +\*+\n$/);
  assert.deepEqual(await run("support", "--reveal"), await run("list", "support", "--reveal"));
  assert.match((await run("support", "--reveal")).stdout, /t-1/);
  assert.equal((await run("sett", "support", "TOKEN")).code, 2);
});

test("shows the commands of a group before the options, and as the answer to the group alone", async () => {
  const { stdout, code } = await runCli(["env", "--help"]);
  assert.equal(code, 0);
  const heads = stdout.match(/^[A-Z][\w ]+:/gm);
  assert.deepEqual(heads, ["Examples:", "Usage:", "Arguments:", "Commands:", "Options:", "Global Options:"]);
  const alone = await runCli(["env"]);
  assert.deepEqual([alone.code, alone.stderr], [2, stdout]);
});
