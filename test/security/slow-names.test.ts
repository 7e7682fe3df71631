import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const skip =
  process.getuid?.() === 0 && process.platform === "linux" ? false : "needs root on Linux, for a name server";

test("names that no name server answers do not delay the lookup of others", { skip }, async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  await writeFile(path.join(directory, "resolv.conf"), "nameserver 127.0.0.1\n");
  await writeFile(path.join(directory, "nsswitch.conf"), "hosts: files dns\n");
  const machine = [
    "ip link set lo up",
    'mount --bind "$0/resolv.conf" /etc/resolv.conf',
    'mount --bind "$0/nsswitch.conf" /etc/nsswitch.conf',
    'exec "$@"',
  ].join(" && ");
  const program = [process.execPath, fileURLToPath(new URL("name-server.ts", import.meta.url))];
  const argv = ["--net", "--mount", "--", "sh", "-c", machine, directory, ...program];
  const { stdout } = await promisify(execFile)("unshare", argv);
  const { addresses, ms, refused } = JSON.parse(stdout) as { addresses: string[]; ms: number; refused: boolean };
  assert.deepEqual(addresses, ["93.184.215.14"]);
  assert.ok(ms < 2_000, `${ms} ms`);
  assert.ok(refused);
  await rm(directory, { recursive: true });
});
