import { mkdir, rm } from "node:fs/promises";
import { setPriority } from "node:os";
import path from "node:path";
import type { BuildLine, BuildRequest, BuildResult } from "../build.ts";
import { failedResult, failureLine } from "../failed-result.ts";
import { tooLarge } from "../failure.ts";
import { runNpmCi } from "../node/npm-ci.ts";
import { BuildLog } from "./build-log.ts";
import { watchDiskUse } from "./disk-watch.ts";
import { buildEnvironment } from "./environment.ts";
import { runPipeline } from "./pipeline.ts";
import { killBuildProcesses, startedAtTicks } from "./processes.ts";

/**
 * The main program of `startBuild`'s child, the process of one build. It receives its request as the first message and
 * sends lines and the result back. It dies with its parent: a closed channel means that no server waits for the build.
 */
export type WorkerMessage = { kind: "lines"; lines: BuildLine[] } | { kind: "result"; result: BuildResult };

/** Lines are sent in batches, because a flood of single messages would block the parent's event loop. */
const bundleDelayMs = 50;
const bundleLinesMax = 500;

/** Niceness of the build and its descendants, so that processes that serve users have priority. */
const niceness = 10;

process.once("message", (request) => void main(request as BuildRequest));

async function main(request: BuildRequest): Promise<void> {
  setPriority(niceness);
  let isDone = false;
  process.once("disconnect", () => {
    if (!isDone) void abandon(request);
  });
  const outbox = new Outbox();
  const credential = request.source.kind === "git" ? request.source.credential : null;
  const secrets = credential === null ? [] : ["password" in credential ? credential.password : credential.privateKey];
  const log = new BuildLog((line) => outbox.add(line), { secrets });
  const result = await build(request, log);
  if (!result.ok) log.say(failureLine(result), "ERROR");
  log.close();
  await rm(request.workDir, { recursive: true, force: true, maxRetries: 3 }).catch(() => {});
  outbox.flush();
  isDone = true;
  send({ kind: "result", result }, () => process.exit(0));
}

async function build(request: BuildRequest, log: BuildLog): Promise<BuildResult> {
  const { workDir, diskBytesMax } = request;
  const stop = new AbortController();
  const watch = watchDiskUse(workDir, diskBytesMax, (bytes) => {
    stop.abort(tooLarge(bytes, diskBytesMax));
    killOwn(request).catch(() => {}); // survivors are killed again at the end
  });
  const noted: Pick<BuildResult, "commit"> = {};
  const noteCommit = (commit: NonNullable<BuildResult["commit"]>) => {
    noted.commit = commit;
  };
  try {
    const env = await prepareEnvironment(request);
    const sourceDir = path.join(workDir, "source");
    const context = { sourceDir, cacheDir: request.cacheDir, env, log, signal: stop.signal, noteCommit, runNpmCi };
    return { ...(await runPipeline(request, context)), ...noted };
  } catch (error) {
    return { ...failedResult(stop.signal.aborted ? stop.signal.reason : error), ...noted };
  } finally {
    watch.stop();
  }
}

/** Replaces this process's own environment, so that git and unpacking use the directories of the build as well. */
async function prepareEnvironment(request: BuildRequest): Promise<Record<string, string>> {
  const { buildId, workDir, cacheDir } = request;
  const [homeDir, tempDir] = [path.join(workDir, "home"), path.join(workDir, "tmp")];
  await Promise.all(
    [homeDir, tempDir, cacheDir].map((directory) => mkdir(directory, { recursive: true, mode: 0o700 })),
  );
  const places = { homeDir, tempDir, cacheDir, nodePath: process.execPath };
  const env = {
    ...request.variables,
    ...buildEnvironment(process.env, { buildId, workerPid: process.pid, ...places }),
  };
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  return env;
}

async function abandon(request: BuildRequest): Promise<void> {
  await killOwn(request).catch(() => {});
  await rm(request.workDir, { recursive: true, force: true }).catch(() => {});
  process.exit(1);
}

async function killOwn({ buildId }: BuildRequest): Promise<void> {
  const leader = { pid: process.pid, startedAtTicks: startedAtTicks(process.pid) ?? "" };
  await killBuildProcesses({ buildId, leader, isSessionOurs: true, sparePid: process.pid });
}

/** Lines that wait to be sent to the parent, in order. */
class Outbox {
  #lines: BuildLine[] = [];
  #timer: NodeJS.Timeout | undefined;

  add(line: BuildLine): void {
    this.#lines.push(line);
    if (this.#lines.length >= bundleLinesMax) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), bundleDelayMs);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#lines.length > 0) send({ kind: "lines", lines: this.#lines });
    this.#lines = [];
  }
}

function send(message: WorkerMessage, onSent: () => void = () => {}): void {
  if (process.connected) process.send?.(message, undefined, undefined, onSent);
}
