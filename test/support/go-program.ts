import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rename } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";

/**
 * Builds a program from Go modules at a low priority, cached in `~/.cache` by the digest of its sources.
 * @param made.sources files of `directory` that determine the program, beside `version`
 * @param made.args of `go build`
 * @returns its path, or the reason why there is none
 */
export async function buildGoProgram(made: {
  name: string;
  directory: string;
  version: string;
  sources: string[];
  args: string[];
}): Promise<{ path: string } | { missing: string }> {
  const hash = createHash("sha256").update(made.version);
  for (const source of made.sources) hash.update(readFileSync(path.join(made.directory, source)));
  const digest = hash.digest("hex").slice(0, 16);
  const target = path.join(homedir(), ".cache", "pierhead-test", `${made.name}-${digest}`);
  if (existsSync(target)) return { path: target };
  await mkdir(path.dirname(target), { recursive: true });
  const draft = `${target}.${process.pid}`;
  // Everything else on this machine comes first.
  const go = spawn("nice", ["-n", "19", "go", "build", "-trimpath", "-o", draft, ...made.args], {
    cwd: made.directory,
    env: { ...process.env, CGO_ENABLED: "0" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  go.stderr.on("data", (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-4_000);
  });
  const failed = once(go, "error").then(([error]) => (error as Error).message);
  const ended = once(go, "close").then(([code]) => (code === 0 ? null : `go build ended with ${code}: ${output}`));
  const failure = await Promise.race([failed, ended]);
  if (failure !== null) return { missing: `${made.name} cannot be built: ${failure}` };
  await rename(draft, target);
  return { path: target };
}
