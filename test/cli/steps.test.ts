import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import type { Input, Output } from "../../src/cli/context.ts";
import { createSteps } from "../../src/cli/terminal/steps.ts";
import { createTerminal } from "../../src/cli/terminal/terminal.ts";

function open(isTTY: boolean, columns?: number) {
  const stderr: Output = new PassThrough().setEncoding("utf8");
  if (isTTY) stderr.isTTY = true;
  if (columns !== undefined) stderr.columns = columns;
  const terminal = createTerminal(
    { env: {}, stdin: new PassThrough() as Input, stdout: new PassThrough(), stderr },
    true,
  );
  return { terminal, said: () => (stderr as PassThrough).read() as string };
}

test("prints one line per finished step when the terminal cannot redraw", () => {
  const { terminal, said } = open(false);
  const steps = createSteps(terminal, ["Pack", "Upload", "Build"]);
  steps.begin("Pack");
  steps.note("3 files");
  steps.begin("Build");
  steps.fail();
  const lines = said().trimEnd().split("\n");
  assert.match(lines[0] ?? "", /^✓ Pack {4}3 files +\d+\.\d s$/);
  assert.match(lines[1] ?? "", /^✗ Build +\d+\.\d s$/);
  assert.equal(lines.length, 2);
});

test("replaces a running step by each message and never exceeds the terminal width", () => {
  const { terminal, said } = open(true, 40);
  const steps = createSteps(terminal, ["Build"]);
  steps.begin("Build");
  steps.note("x".repeat(200));
  terminal.say("a line of the log");
  steps.finish();
  const [drawn, log, end] = said().split("\r\u001b[2K").slice(1);
  assert.match(drawn ?? "", /^· Build/);
  assert.match(log ?? "", /^a line of the log\n✓ Build {2}x{15,25} \d+\.\d s\n$/);
  assert.equal(end, undefined);
  assert.ok((log?.split("\n")[1] ?? "").length < 40);
});
