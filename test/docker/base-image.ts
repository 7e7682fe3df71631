import { execFileSync, spawn } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, realpathSync, symlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { rawTar } from "../builds/tar-fixture.ts";

/** Node, npm and their dependencies, copied from this machine in a second: 150 MB. */
export const nodeImage = "pierhead-test/node:24";

/** Builds `nodeImage` unless it exists. Needs no registry. */
export const importNodeImage = (engine: Engine): Promise<void> => importRoot(engine, nodeImage, layOutNode);

/** Copies Node, npm and what they need. */
export function layOutNode(root: string): void {
  copyPrograms(root, {
    [process.execPath]: `${binDir}/node`,
    "/usr/bin/env": "/usr/bin/env",
    "/bin/sh": "/bin/sh",
  });
  mkdirSync(path.join(root, path.dirname(npmDir)), { recursive: true });
  cpSync(hostNpm(), path.join(root, npmDir), { recursive: true });
  for (const name of ["npm", "npx"]) symlinkSync(`${npmDir}/bin/${name}-cli.js`, path.join(root, `${binDir}/${name}`));
}

/** Returns the directory of this machine's npm. */
export function hostNpm(): string {
  const npm = execFileSync("which", ["npm"], { encoding: "utf8", env: { PATH: hostPath() } }).trim();
  return path.resolve(realpathSync(npm), "../..");
}

/** Builds an image from a directory tree, unless it exists. */
export async function importRoot(engine: Engine, name: string, layOut: (root: string) => void): Promise<void> {
  if ((await engine.callUnless([404], "GET", `/images/${name}/json`)) !== undefined) return;
  const root = await mkdtemp(path.join(tmpdir(), "pierhead-base-image-"));
  try {
    for (const directory of ["root", "etc", "proc", "sys", "dev", binDir, path.dirname(npmDir)]) {
      mkdirSync(path.join(root, directory), { recursive: true });
    }
    mkdirSync(path.join(root, "tmp"));
    chmodSync(path.join(root, "tmp"), 0o1777);
    layOut(root);
    const tar = spawn("tar", ["-C", root, "--numeric-owner", "--owner=0", "--group=0", "-c", "."], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [repo, tag] = name.split(":");
    const query = { fromSrc: "-", repo, tag, changes: "ENV PATH=/usr/local/bin:/usr/bin:/bin" };
    await engine.call("POST", "/images/create", { query, body: tar.stdout, timeoutMs: 120_000 });
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}

/** Copies programs to their paths in a tree, with the libraries that they need and the given ones. */
export function copyPrograms(root: string, programs: Record<string, string>, libraries: string[] = []): void {
  const needed = [...Object.keys(programs), ...libraries].flatMap(librariesOf);
  const files = new Map([
    ...Object.entries(programs),
    ...[...libraries, ...needed].map((file) => [file, file] as const),
  ]);
  for (const [from, to] of files) {
    mkdirSync(path.dirname(path.join(root, to)), { recursive: true });
    copyFileSync(realpathSync(from), path.join(root, to));
  }
}

const [npmDir, binDir] = ["/usr/local/lib/node_modules/npm", "/usr/local/bin"];

/** PATH without the directories that npm adds for its scripts. */
const hostPath = () =>
  (process.env["PATH"] ?? "")
    .split(path.delimiter)
    .filter((place) => !place.includes("node_modules"))
    .join(path.delimiter);

/** Returns the shared libraries of a program, including its loader. */
function librariesOf(program: string): string[] {
  const printed = execFileSync("ldd", [program], { encoding: "utf8" });
  return [...printed.matchAll(/(\/\S+) \(0x/g)].map((found) => found[1] as string);
}

/** Builds an image that runs a Node program, in 0.3 s. @param lines further lines of its Dockerfile */
export async function buildAgentImage(engine: Engine, name: string, program: string, lines: string[] = []) {
  const dockerfile = [`FROM ${nodeImage}`, "COPY agent.mjs /agent.mjs", 'CMD ["node", "/agent.mjs"]', ...lines];
  await buildImage(engine, name, { Dockerfile: dockerfile.join("\n"), "agent.mjs": program });
}

/** Builds an image that contains a text and runs nothing. It is pushed at once, where Node takes seconds. */
export const buildTinyImage = (engine: Engine, name: string) =>
  buildImage(engine, name, { Dockerfile: "FROM scratch\nCOPY text /text", text: name });

/** Builds an image from the given files. */
export async function buildImage(engine: Engine, name: string, files: Record<string, string>) {
  const context = rawTar(Object.entries(files).map(([file, content]) => ({ name: file, content })));
  const progress = engine.values<{ error?: string }>("POST", "/build", {
    query: { t: name, forcerm: true },
    body: Readable.from([context]),
  });
  for await (const { error } of progress) if (error !== undefined) throw new Error(error);
}
