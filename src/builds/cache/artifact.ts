import { createHash } from "node:crypto";
import { type Dirent, lstatSync } from "node:fs";
import { readdir, readFile, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import type { Artifact } from "../../contract/listeners/assignment.ts";
import type { BuildSource, BuildTarget } from "../build.ts";
import { toolchainVersion } from "../node/toolchain.ts";
import { pythonServerVersion } from "../python/server.ts";

/** Grows when the builder makes something else of the same source, so that old artifacts are not taken for new ones. */
export const builderVersion = `2/${toolchainVersion}/${pythonServerVersion}`;

/** Inside the artifact directory: the `Artifact` as JSON. Written last, so a directory without it is none. */
export const artifactManifestName = ".pierhead-artifact.json";

/**
 * Names the artifact of a build before it is built: equal keys mean equal content, so nothing has to be built again.
 * The tenant is part of it: no tenant can learn or use what another one has built.
 * @returns 64 hex digits.
 */
export function artifactKey(build: {
  tenantId: string;
  source: BuildSource;
  target: BuildTarget;
  configPath: string | null;
  installCommand: string | null;
  buildCommand: string | null;
  builderVersion?: string;
  nodeMajor?: number;
}): string {
  const { tenantId, source, configPath, installCommand, buildCommand } = build;
  const what = [
    build.builderVersion ?? builderVersion,
    build.nodeMajor ?? nodeMajor,
    process.platform,
    process.arch,
    ...(build.target.kind === "image" ? [build.target.nodeImage, build.target.pythonImage] : ["directory"]),
    tenantId,
    ...contentOf(source),
    configPath,
    installCommand,
    buildCommand,
  ];
  return createHash("sha256").update(JSON.stringify(what)).digest("hex");
}

/** Agents run on the Node that runs us, and native packages are built for its major version. */
export const nodeMajor = Number.parseInt(process.versions.node, 10);

function contentOf(source: BuildSource): string[] {
  switch (source.kind) {
    case "git":
      return ["git", source.repoUrl, source.commitSha];
    case "tarball":
      return ["tarball", source.sha256];
    case "template":
      return ["template", source.digest];
  }
}

/**
 * @returns undefined when there is no finished artifact, or what it needs beside itself (its toolchain) is gone. Of an
 * image only the manifest lies here: whether the engine still has it is asked by `isImageThere`.
 */
export async function readArtifact(directory: string): Promise<Artifact | undefined> {
  try {
    const text = await readFile(path.join(directory, artifactManifestName), "utf8");
    const artifact = JSON.parse(text) as Artifact;
    if (artifact.kind === "image") return artifact;
    if (artifact.path !== directory) return undefined;
    const { start } = artifact;
    if (start.runner === "langgraph-js") await stat(path.join(start.toolchain_dir, "node_modules"));
    if (start.runner === "langgraph-python") await stat(path.join(start.environment_dir, "bin", "python"));
    return artifact;
  } catch {
    return undefined;
  }
}

/** Removes an artifact. It is gone at once for everyone who looks, however long its files take. */
export async function removeArtifact(directory: string): Promise<void> {
  const trash = `${directory}${trashMark}${process.pid}-${Date.now()}`;
  try {
    await rename(directory, trash);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  await rm(trash, { recursive: true, force: true, maxRetries: 3 });
}

const trashMark = ".removed-";

/** Finished artifacts and the time of their build; what an interrupted removal left is removed on the way. */
export async function listArtifacts(
  artifactsDir: string,
): Promise<{ key: string; directory: string; builtAt: Date }[]> {
  const names = await readdir(artifactsDir).catch(() => []);
  const found = await Promise.all(
    names.map(async (name) => {
      const directory = path.join(artifactsDir, name);
      if (name.includes(trashMark)) await rm(directory, { recursive: true, force: true });
      const manifest = await stat(path.join(directory, artifactManifestName)).catch(() => null);
      return manifest === null || name.includes(".") ? [] : [{ key: name, directory, builtAt: manifest.mtime }];
    }),
  );
  return found.flat();
}

/**
 * Bytes a directory takes on disk: whole blocks, so that many small files weigh what they cost and holes weigh nothing.
 * Links are not followed; what vanishes while we look counts nothing. A directory at a time without giving up the thread: 14,000
 * files take 0.1 s of processor, and 0.5 s when each is waited for.
 */
export async function directorySize(directory: string, signal?: AbortSignal): Promise<number> {
  let bytes = 0;
  const open = [directory];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    signal?.throwIfAborted();
    for (const entry of await entriesOf(next)) {
      const file = path.join(next, entry.name);
      if (entry.isDirectory()) open.push(file);
      else bytes += blocksOf(file) * 512;
    }
  }
  return bytes;
}

async function entriesOf(directory: string): Promise<Dirent[]> {
  try {
    return await readdir(directory, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return [];
  }
}

function blocksOf(file: string): number {
  try {
    return lstatSync(file, { throwIfNoEntry: false })?.blocks ?? 0;
  } catch {
    return 0;
  }
}
