import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { execa } from "execa";
import type { BuildLine, BuildRequest, BuildSource, RunningBuild } from "../../src/builds/build.ts";
import { startBuild, workDirOf } from "../../src/builds/worker/start-build.ts";

/** Creates a directory for one test, removed at the end of its scope. */
export async function scratch(): Promise<{ dir: string } & AsyncDisposable> {
  const dir = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  return { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true, maxRetries: 5 }) };
}

export type Files = Record<string, string>;

export async function writeFiles(dir: string, files: Files): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(dir, name)), { recursive: true });
    await writeFile(path.join(dir, name), content);
  }
}

/** A real git repository. `commit` writes files and returns the id of the commit. */
export async function gitRepository(dir: string) {
  await mkdir(dir, { recursive: true });
  const identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
  const git = async (...args: string[]) => (await execa("git", [...identity, "-C", dir, ...args])).stdout;
  await git("init", "--quiet", "--initial-branch=main");
  return {
    dir,
    git,
    async commit(files: Files): Promise<string> {
      await writeFiles(dir, files);
      await git("add", "--all", "--force");
      await git("commit", "--quiet", "--allow-empty", "--message=a change");
      return git("rev-parse", "HEAD");
    },
  };
}

/** Returns a commit of `gitRepository` as a source. */
export function gitSource(repository: { dir: string }, commitSha: string): BuildSource {
  return {
    kind: "git",
    repoUrl: repository.dir,
    commitSha,
    credential: null,
    allowLocal: true,
    allowPrivateNetwork: true,
  };
}

/** Returns a template source made of files, the fastest kind of source. */
export async function filesSource(dir: string, files: Files): Promise<BuildSource> {
  await writeFiles(dir, files);
  return { kind: "template", directory: dir, digest: JSON.stringify(files) };
}

let builds = 0;

/** Starts a build below `dir` and collects its lines. */
export function begin(dir: string, source: BuildSource, changes: Partial<BuildRequest> = {}) {
  const buildId = `test-${process.pid}-${++builds}`;
  const lines: BuildLine[] = [];
  const build: RunningBuild = startBuild(
    {
      buildId,
      deploymentId: "deployment",
      tenantId: "00000000-0000-4000-8000-000000000001",
      source,
      target: { kind: "directory" },
      configPath: null,
      installCommand: null,
      buildCommand: null,
      engine: null,
      defaultEngine: null,
      isDefaultKept: false,
      artifactsDir: path.join(dir, "artifacts"),
      key: `key-${buildId}`,
      workDir: workDirOf(path.join(dir, "builds"), buildId),
      cacheDir: path.join(dir, "cache"),
      timeoutMs: 120_000,
      diskBytesMax: 500 * 1024 * 1024,
      ...changes,
    },
    { onLine: (line) => lines.push(line) },
  );
  return { build, buildId, lines, log: () => lines.map((line) => line.message).join("\n") };
}

/** Returns the ids of the processes, without zombies, whose command line contains `mark`. */
export async function processesWith(mark: string): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      return command.includes(mark) && Number(pid) !== process.pid ? [Number(pid)] : [];
    }),
  );
  return found.flat();
}
