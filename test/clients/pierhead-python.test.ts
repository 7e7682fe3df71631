import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { startPackedServer } from "../ship/packed.ts";

const root = path.resolve(import.meta.dirname, "../..");

/** Runs a program to its end and returns its output. @throws Error with its output if it fails. */
async function done(program: string, argv: string[], env: Record<string, string> = {}): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(program, argv, { cwd: root, env: { ...process.env, ...env } });
  return stdout + stderr;
}

test("the Python package, installed from its wheel beside the packed server, deploys, follows, fails with the cause and deletes", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-python-client-"));
  try {
    await done(process.execPath, ["scripts/python-client.mjs"]);
    const [wheel = ""] = await readdir(path.join(root, "dist/python"));
    assert.match(wheel, /^pierhead-.*-py3-none-any\.whl$/);
    await done("python3", ["-m", "venv", directory]);
    const python = path.join(directory, "bin/python");
    await done(python, [
      "-m",
      "pip",
      "install",
      "--quiet",
      "--disable-pip-version-check",
      path.join("dist/python", wheel),
    ]);
    await using pierhead = await startPackedServer({});
    const env = { PIERHEAD_URL: pierhead.url, PIERHEAD_API_KEY: pierhead.apiKey, HOME: directory };
    assert.match(await done(python, ["clients/python/tests/test_client.py"], env), /^Ran 8 tests in .*\n\nOK$/m);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
