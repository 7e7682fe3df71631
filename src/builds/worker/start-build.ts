import { type ChildProcess, fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import path from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { removeTree } from "../../base/remove-tree.ts";
import { describeError } from "../../telemetry/log.ts";
import type { BuildLine, BuildRequest, BuildResult, RunningBuild } from "../build.ts";
import { type FailedResult, failureLine } from "../failed-result.ts";
import { LineSplitter } from "./build-log.ts";
import { workerEnvironment } from "./environment.ts";
import { killBuildProcesses, type ProcessIdentity, startedAtTicks } from "./processes.ts";
import type { WorkerMessage } from "./worker.ts";

export interface BuildObserver {
  /** Called with each line of the log, in order. */
  onLine(line: BuildLine): void;
  /** Aborting this signal cancels the build. */
  signal?: AbortSignal;
}

/**
 * Starts a build in its own process and session, at low priority. The process dies with this one. The request, which
 * contains the credential, is sent over the channel to the worker, never in its arguments.
 * @throws Error when the process cannot be started.
 */
export function startBuild(request: BuildRequest, observer: BuildObserver): RunningBuild {
  const extension = path.extname(fileURLToPath(import.meta.url)); // .ts in a clone, .js when built
  const worker = fork(fileURLToPath(new URL(`./worker${extension}`, import.meta.url)), [request.buildId], {
    detached: true,
    execArgv: [],
    env: workerEnvironment(),
    serialization: "advanced",
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  if (worker.pid === undefined) {
    // The child emits the error later. Without a handler it would end this server.
    worker.on("error", () => {});
    throw new Error("the build process could not be started");
  }
  const leader = { pid: worker.pid, startedAtTicks: startedAtTicks(worker.pid) ?? "" };
  worker.send(request, () => {}); // the exit event reports a worker that has already ended
  return new WatchedBuild({ worker, leader, request, observer });
}

/**
 * Kills a build that an earlier server process left. A recycled pid is not touched. Resolves when no process is left.
 * @throws Error when a process of the build survives.
 */
export async function killBuild(build: { pid: number; startedAtTicks: string; buildId: string }): Promise<void> {
  const { pid, startedAtTicks: ticks, buildId } = build;
  await killBuildProcesses({ buildId, leader: { pid, startedAtTicks: ticks }, isSessionOurs: false });
}

/** Returns a directory name that no other attempt at this build uses, so that a late cleanup removes only its own files. */
export function workDirOf(workRoot: string, buildId: string): string {
  return path.join(workRoot, `${buildId}.${randomBytes(4).toString("hex")}`);
}

/**
 * Removes the work directories of builds that no longer run.
 * @param findLive called after the directories are listed, so that a build another server starts meanwhile is not removed.
 */
export async function sweepWorkDirs(workRoot: string, findLive: () => Promise<string[]>): Promise<void> {
  const names = await readdir(workRoot).catch(() => []);
  const live = new Set(await findLive());
  await removeAll(
    workRoot,
    names.filter((name) => !live.has(buildIdOf(name))),
  );
}

/** Removes the work directories of earlier attempts at one build. */
export async function removeWorkDirs(workRoot: string, buildId: string): Promise<void> {
  const names = await readdir(workRoot).catch(() => []);
  await removeAll(
    workRoot,
    names.filter((name) => buildIdOf(name) === buildId),
  );
}

const buildIdOf = (name: string) => name.split(".")[0] ?? "";

async function removeAll(directory: string, names: string[]): Promise<void> {
  for (const name of names) await removeTree(path.join(directory, name));
}

class WatchedBuild implements RunningBuild {
  readonly pid: number;
  readonly startedAtTicks: string;
  readonly result: Promise<BuildResult>;
  readonly #leader: ProcessIdentity;
  readonly #request: BuildRequest;
  /** Set by the first caller that stops the build. Results that the worker reports later are ignored. */
  #stoppedWith: FailedResult | undefined;
  #said: BuildResult | undefined;
  #step = "starting";
  readonly #onLine: (line: BuildLine) => void;
  readonly #lastLines: string[] = [];
  readonly #lastWords: string[] = [];

  constructor(build: {
    worker: ChildProcess;
    leader: ProcessIdentity;
    request: BuildRequest;
    observer: BuildObserver;
  }) {
    const { worker, leader, request, observer } = build;
    this.#leader = leader;
    this.#request = request;
    this.#onLine = (line) => observer.onLine(line);
    this.pid = leader.pid;
    this.startedAtTicks = leader.startedAtTicks;
    worker.on("message", (message) => this.#receive(message as WorkerMessage));
    for (const stream of [worker.stdout, worker.stderr]) this.#keepLastWords(stream);
    const deadline = setTimeout(() => void this.#stop(this.#timedOut()), request.timeoutMs);
    const onAbort = () => void this.#stop(cancelled);
    observer.signal?.addEventListener("abort", onAbort, { once: true });
    this.result = this.#end(worker).finally(() => {
      clearTimeout(deadline);
      observer.signal?.removeEventListener("abort", onAbort);
    });
    if (observer.signal?.aborted) onAbort();
  }

  async cancel(notice?: string): Promise<void> {
    await this.#stop(cancelled, notice);
    await this.result;
  }

  async #stop(result: FailedResult, notice?: string): Promise<void> {
    if (this.#said !== undefined) return;
    if (this.#stoppedWith === undefined) {
      this.#stoppedWith = result;
      const line = { timestamp: new Date(), stream: "pierhead" as const };
      if (notice === undefined) this.#onLine({ ...line, level: "ERROR", message: failureLine(result) });
      else this.#onLine({ ...line, level: "INFO", message: notice });
    }
    await this.#kill().catch(() => {}); // tried again, and reported, when the worker has ended
  }

  #receive(message: WorkerMessage): void {
    if (this.#stoppedWith !== undefined) return;
    if (message.kind === "result") this.#said = message.result;
    else for (const line of message.lines) this.#pass(line);
  }

  #pass(line: BuildLine): void {
    if (line.stream !== "pierhead") keepLast(this.#lastLines, line.message, 10);
    else if (line.message.startsWith("Step ")) this.#step = line.message;
    this.#onLine(line);
  }

  #timedOut(): FailedResult {
    const seconds = Math.round(this.#request.timeoutMs / 1000);
    const said =
      this.#lastLines.length === 0 ? "It had not printed anything." : `Last lines:\n${this.#lastLines.join("\n")}`;
    const message = `The build did not end within ${seconds} s and was stopped. It was at: ${this.#step}. ${said}`;
    return { ok: false, reason: "Timeout", message };
  }

  #kill(): Promise<void> {
    return killBuildProcesses({ buildId: this.#request.buildId, leader: this.#leader, isSessionOurs: true });
  }

  /** A worker that was killed has left the network of its build in the engine. */
  async #closeNetwork(): Promise<void> {
    if (this.#request.target.kind !== "image") return;
    // The engine's client is loaded only when it is needed.
    const { removeBuildNetwork } = await import("../image/build-network.ts");
    await removeBuildNetwork(this.#request);
  }

  /** Saves what the worker prints. It reports through its channel, so printed output explains a crash. */
  #keepLastWords(stream: Readable | null): void {
    const lines = new LineSplitter((line) => keepLast(this.#lastWords, line, 10));
    stream?.on("data", (chunk: Buffer) => lines.write(chunk));
  }

  /** Resolves after the worker, every process it started and its scratch space are gone. */
  async #end(worker: ChildProcess): Promise<BuildResult> {
    const how = await new Promise<string>((resolve) => {
      worker.once("error", (error) => resolve(describeError(error)));
      worker.once("close", (exitCode, signal) =>
        resolve(signal === null ? `exit code ${exitCode}` : `signal ${signal}`),
      );
    });
    try {
      await this.#kill();
      if (this.#said === undefined) await this.#closeNetwork();
      await removeTree(this.#request.workDir);
    } catch (error) {
      return died(`it could not be cleaned up: ${describeError(error)}`, []);
    }
    return this.#stoppedWith ?? this.#said ?? died(how, this.#lastWords);
  }
}

const cancelled: FailedResult = { ok: false, reason: "Cancelled", message: "The build was cancelled." };

function keepLast(lines: string[], line: string, countMax: number): void {
  lines.push(line.slice(0, 400));
  if (lines.length > countMax) lines.shift();
}

function died(how: string, lastWords: string[]): FailedResult {
  const said =
    lastWords.length === 0 ? "If this host is short of memory, run fewer builds at a time." : lastWords.join("\n");
  return { ok: false, reason: "BuilderFailed", message: `The build process ended unexpectedly (${how}). ${said}` };
}
