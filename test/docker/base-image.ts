import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import type { Engine } from "../../src/compute/docker/engine.ts";
import { rawTar } from "../builds/tar-fixture.ts";

/** Node and the libraries it needs, and nothing else: 130 MB, made of this machine's own files in a second. */
export const nodeImage = "pierhead-test/node:24";

/** Makes `nodeImage` unless it is there. No registry is asked. */
export async function importNodeImage(engine: Engine): Promise<void> {
  if ((await engine.callUnless([404], "GET", `/images/${nodeImage}/json`)) !== undefined) return;
  const root = await mkdtemp(path.join(tmpdir(), "pierhead-base-image-"));
  try {
    for (const directory of ["tmp", "etc", "proc", "sys", "dev"]) mkdirSync(path.join(root, directory));
    for (const file of [process.execPath, ...librariesOf(process.execPath)]) {
      const target = path.join(root, file === process.execPath ? "/usr/local/bin/node" : file);
      mkdirSync(path.dirname(target), { recursive: true });
      copyFileSync(file, target);
    }
    const tar = spawn("tar", ["-C", root, "--numeric-owner", "--owner=0", "--group=0", "-c", "."], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [repo, tag] = nodeImage.split(":");
    const query = { fromSrc: "-", repo, tag, changes: "ENV PATH=/usr/local/bin:/usr/bin:/bin" };
    await engine.call("POST", "/images/create", { query, body: tar.stdout, timeoutMs: 120_000 });
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}

/** Shared libraries of a program, its loader included. */
function librariesOf(program: string): string[] {
  const printed = execFileSync("ldd", [program], { encoding: "utf8" });
  return [...printed.matchAll(/(\/\S+) \(0x/g)].map((found) => found[1] as string);
}

/** Builds an image that runs a Node program, in 0.3 s. @param lines further lines of its Dockerfile. */
export async function buildAgentImage(engine: Engine, name: string, program: string, lines: string[] = []) {
  const dockerfile = [`FROM ${nodeImage}`, "COPY agent.mjs /agent.mjs", 'CMD ["node", "/agent.mjs"]', ...lines];
  const context = rawTar([
    { name: "Dockerfile", content: dockerfile.join("\n") },
    { name: "agent.mjs", content: program },
  ]);
  const progress = engine.values<{ error?: string }>("POST", "/build", {
    query: { t: name, forcerm: true },
    body: Readable.from([context]),
  });
  for await (const { error } of progress) if (error !== undefined) throw new Error(error);
}
