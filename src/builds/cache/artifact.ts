import { createHash } from "node:crypto";
import { type Dirent, lstatSync } from "node:fs";
import { readdir, readFile, rename, stat } from "node:fs/promises";
import path from "node:path";
import { removeTree } from "../../base/remove-tree.ts";
import type { Artifact } from "../../contract/listeners/assignment.ts";
import type { BuildRequest, BuildSource, BuildTarget } from "../build.ts";
import { toolchainVersion } from "../node/toolchain.ts";
import { aegraVersion, pythonServerVersion } from "../python/server.ts";

/**
 * Version of the builder. Increase it when the builder produces another result from the same source, so that old artifacts are
 * not reused.
 */
export const builderVersion = `18/${toolchainVersion}/${pythonServerVersion}/${aegraVersion}`;

/** File in the artifact directory: the `Artifact` as JSON. It is written last, so a directory without it is not an artifact. */
export const artifactManifestName = ".pierhead-artifact.json";

/**
 * Returns the cache key of a build. Equal keys mean equal content, which need not be built again.
 * The key includes the tenant, so that no tenant can discover or use what another tenant has built.
 * @returns 64 hex digits.
 */
export function artifactKey(build: {
  tenantId: string;
  source: BuildSource;
  target: BuildTarget;
  configPath: string | null;
  installCommand: string | null;
  buildCommand: string | null;
  engine: BuildRequest["engine"];
  defaultEngine: BuildRequest["defaultEngine"];
  isDefaultKept?: boolean;
  variables?: Record<string, string>;
  builderVersion?: string;
  nodeMajor?: number;
}): string {
  const { tenantId, source, configPath, installCommand, buildCommand } = build;
  const what = [
    build.builderVersion ?? builderVersion,
    build.nodeMajor ?? nodeMajor,
    process.platform,
    process.arch,
    ...(build.target.kind === "directory" ? ["directory"] : [build.target.nodeImage, build.target.pythonImage]),
    ...(build.target.kind === "cluster" ? ["cluster", build.target.listenerId, build.target.registry] : []),
    tenantId,
    ...contentOf(source),
    configPath,
    installCommand,
    buildCommand,
    build.engine,
    ...(build.defaultEngine === null ? [] : ["default engine", build.defaultEngine]),
    ...(build.isDefaultKept === true ? ["kept"] : []),
    ...(Object.keys(build.variables ?? {}).length === 0 ? [] : ["variables", build.variables]),
  ];
  return createHash("sha256").update(JSON.stringify(what)).digest("hex");
}

/** Major version of Node. Agents run on the Node that runs Pierhead, and native packages are built for its major version. */
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
 * Reads the manifest of an artifact.
 * @returns undefined when there is no finished artifact, or when its external toolchain or environment is gone. For an
 * image only the manifest is read; `isUsable` checks whether the engine still has the image.
 */
export async function readArtifact(directory: string): Promise<Artifact | undefined> {
  try {
    const text = await readFile(path.join(directory, artifactManifestName), "utf8");
    const artifact = JSON.parse(text) as Artifact;
    if (artifact.kind === "image") return artifact;
    if (artifact.path !== directory) return undefined;
    const { start } = artifact;
    if (start.runner === "langgraph-js") await stat(path.join(start.toolchain_dir, "node_modules"));
    if (start.runner === "langgraph-js" && start.engine_dir !== undefined) await stat(start.engine_dir);
    if (start.runner !== "langgraph-js" && start.environment_dir !== undefined)
      await stat(path.join(start.environment_dir, "bin", "python"));
    return artifact;
  } catch {
    return undefined;
  }
}

/** Removes an artifact. It disappears for all readers at once, however long deleting its files takes. */
export async function removeArtifact(directory: string): Promise<void> {
  const trash = `${directory}${trashMark}${process.pid}-${Date.now()}`;
  try {
    await rename(directory, trash);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  await removeTree(trash);
}

const trashMark = ".removed-";

/** Lists the finished artifacts and when they were built, and deletes the remains of interrupted removals. */
export async function listArtifacts(
  artifactsDir: string,
): Promise<{ key: string; directory: string; builtAt: Date }[]> {
  const names = await readdir(artifactsDir).catch(() => []);
  const found = await Promise.all(
    names.map(async (name) => {
      const directory = path.join(artifactsDir, name);
      if (name.includes(trashMark)) await removeTree(directory);
      const manifest = await stat(path.join(directory, artifactManifestName)).catch(() => null);
      return manifest === null || name.includes(".") ? [] : [{ key: name, directory, builtAt: manifest.mtime }];
    }),
  );
  return found.flat();
}

/** Minimum size of a file or directory: each takes an inode, and a disk runs out of them too (ext4 has one for 16 KiB). */
const entryBytesMin = 4_096;

/**
 * Returns the bytes that a directory occupies on disk, in whole blocks, so that small files count fully and holes do not.
 * It does not follow links, and files that are deleted during the scan count as 0. It reads one directory at a time and stats its
 * files synchronously: 14,000 files take 0.1 s of CPU time, and 0.5 s with an await for each.
 */
export async function directorySize(directory: string, signal?: AbortSignal): Promise<number> {
  let bytes = 0;
  const open = [directory];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    signal?.throwIfAborted();
    for (const entry of await entriesOf(next)) {
      const file = path.join(next, entry.name);
      if (entry.isDirectory()) open.push(file);
      bytes += entry.isDirectory() ? entryBytesMin : Math.max(entryBytesMin, blocksOf(file) * 512);
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
