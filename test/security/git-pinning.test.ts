import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { resolveRef } from "../../src/integrations/git.ts";

/** Runs `act` with a program that calls itself git of another version and records its arguments. */
async function withGit(version: string, act: (calls: () => Promise<string>) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  const { PATH } = process.env;
  const calls = path.join(directory, "calls");
  // It reaches no host.
  const script = `#!/bin/sh
echo "$*" >> ${calls}
[ "$1" = version ] && echo "git version ${version}" && exit
echo "fatal: unable to access" >&2
exit 128
`;
  await writeFile(path.join(directory, "git"), script);
  await chmod(path.join(directory, "git"), 0o755);
  process.env["PATH"] = `${directory}:${PATH}`;
  try {
    await act(() => readFile(calls, "utf8").catch(() => ""));
  } finally {
    process.env["PATH"] = PATH;
    await rm(directory, { recursive: true });
  }
}

const remote = { credential: null, allowLocal: false, timeoutMs: 3_000 };
const read = (repoUrl: string, allowPrivateNetwork = false) =>
  resolveRef({ ...remote, repoUrl, allowPrivateNetwork, ref: "main", signal: AbortSignal.timeout(10_000) });

test("a git that looks the name up again must not fetch plain HTTP for a user", async () => {
  for (const version of ["2.30.2", "2.36.6", "1.8.3.1"]) {
    await withGit(version, async (calls) => {
      await assert.rejects(read("http://93.184.215.14:9/acme/bot"), { reason: "UrlRefused", message: /git 2\.37/ });
      assert.doesNotMatch(await calls(), /ls-remote|fetch/);
    });
  }
});

test("other fetches of an older git, and plain HTTP of a newer one, go on", async () => {
  await withGit("2.36.6", async (calls) => {
    await assert.rejects(read("https://127.0.0.1:9/acme/bot", true), { reason: "Unreachable" });
    await assert.rejects(read("http://127.0.0.1:9/acme/bot", true), { reason: "Unreachable" });
    assert.match(await calls(), /ls-remote -- http:/);
  });
  await withGit("2.37.0", async (calls) => {
    await assert.rejects(read("http://93.184.215.14:9/acme/bot"), { reason: "Unreachable" });
    assert.match(await calls(), /ls-remote -- http:/);
  });
});
