import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import path from "node:path";
import { hostNpm, layOutNode } from "../docker/base-image.ts";
import type { ImageMaker } from "./images.ts";

/** A directory with a package.json and a package-lock.json, by the paths of these files. */
type Locked = readonly [manifest: string, lock: string];

/**
 * Node with npm and a cache with these packages, on which generated Dockerfiles are based. Pods of the test's node reach nothing but this
 * machine, so npm installs from the cache.
 */
export async function pushNodeWithPackages(images: ImageMaker, projects: readonly Locked[]): Promise<string> {
  const cache = await fillCache(projects);
  const registry = npm(["config", "get", "registry"], process.cwd()).trim();
  return images.push("node-with-packages:24", { Entrypoint: [] }, (root) => {
    layOutNode(root);
    cpSync(cache, path.join(root, "npm-cache"), { recursive: true });
    mkdirSync(path.join(root, "usr/local/etc"), { recursive: true });
    writeFileSync(
      path.join(root, "usr/local/etc/npmrc"),
      `cache=/npm-cache\noffline=true\nregistry=${registry}\nlogs-max=0\n`,
    );
  });
}

/** Installs the packages once per machine with npm's own registry, and keeps what npm has downloaded. @returns the cache */
async function fillCache(projects: readonly Locked[]): Promise<string> {
  const digest = createHash("sha256");
  for (const file of projects.flat()) digest.update(readFileSync(file));
  const name = `npm-${digest.digest("hex").slice(0, 16)}`;
  const kept = path.join(homedir(), ".cache", "pierhead-test", name);
  if (existsSync(kept)) return kept;
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-npm-"));
  const draft = `${kept}.${process.pid}`;
  try {
    for (const [index, [manifest, lock]] of projects.entries()) {
      const project = path.join(directory, String(index));
      mkdirSync(project);
      copyFileSync(manifest, path.join(project, "package.json"));
      copyFileSync(lock, path.join(project, "package-lock.json"));
      npm(["install", "--ignore-scripts", "--cache", draft], project);
    }
    rmSync(path.join(draft, "_logs"), { recursive: true, force: true });
    renameSync(draft, kept);
    return kept;
  } finally {
    await rm(directory, { recursive: true });
    await rm(draft, { recursive: true, force: true });
  }
}

/** Runs the npm that the image contains. */
const npm = (args: string[], cwd: string) =>
  execFileSync(process.execPath, [path.join(hostNpm(), "bin/npm-cli.js"), ...args], { cwd, encoding: "utf8" });
