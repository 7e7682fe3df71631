import assert from "node:assert/strict";
import { test } from "node:test";
import { readVariables } from "../../src/cli/deployments/variables.ts";
import type { Session } from "../../src/cli/session.ts";
import { createDirectory } from "./run-cli.ts";

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
