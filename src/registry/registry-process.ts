import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { accessSync, constants } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readJson, writeJson } from "../compute/json-file.ts";
import { Ports } from "../compute/process/system/ports.ts";
import { identify, isRunning, type ProcessIdentity, signalProcess } from "../compute/process/system/processes.ts";
import { describeError, type Logger } from "../telemetry/log.ts";

export interface RegistryPlace {
  /** Blobs, configuration and the identity of the process live below it. */
  directory: string;
  /** Absolute path of the CNCF distribution registry, `registry` or Debian's `docker-registry`. */
  program: string;
  logger: Logger;
  collectTimeoutMs?: number;
}

/** It reads one small file and listens: 50 ms, on a busy machine a second. */
const startTimeoutMs = 20_000;

/** Its own uploads end with their connections; it has nothing else to finish. */
const endTimeoutMs = 5_000;

/** Pushes and pulls wait meanwhile. What one that is given up has not deleted yet goes with the next. */
const collectTimeoutDefaultMs = 300_000;

/** Another program may take the port between our look and its start. */
const startTriesMax = 3;

/** Where Debian and people put it. @returns null when it is in none of these places. */
export function findRegistryProgram(): string | null {
  for (const place of ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"]) {
    for (const name of ["docker-registry", "registry"]) {
      const file = path.join(place, name);
      try {
        accessSync(file, constants.X_OK);
        return file;
      } catch {
        // not here
      }
    }
  }
  return null;
}

/**
 * The registry that holds pushed images: a child process on a loopback port, behind the door. It is started when it is
 * needed first and again when it has ended; one that a killed server left is ended before.
 */
export class RegistryProcess {
  readonly #place: RegistryPlace;
  readonly #identityFile: string;
  readonly #configFile: string;
  #running: Promise<number> | undefined;
  #child: ChildProcess | undefined;
  /** Nobody may ask while its files are being tidied. */
  #pause: Promise<unknown> = Promise.resolve();

  constructor(place: RegistryPlace) {
    this.#place = place;
    this.#identityFile = path.join(place.directory, "process.json");
    this.#configFile = path.join(place.directory, "config.json");
  }

  /** Root of its files. */
  get blobsDir(): string {
    return path.join(this.#place.directory, "data");
  }

  /**
   * Port of the running registry, on 127.0.0.1.
   * @throws Error when it does not start; the next call tries again.
   */
  async port(): Promise<number> {
    await this.#pause;
    this.#running ??= this.#start().catch((error: unknown) => {
      this.#running = undefined;
      throw error;
    });
    return this.#running;
  }

  /** Ends it, does something with its files, and lets it be started again. */
  whilePaused(act: () => Promise<void>): Promise<void> {
    const paused = this.#pause.then(async () => {
      await this.#end();
      await act();
    });
    this.#pause = paused.catch(() => {});
    return paused;
  }

  /** Deletes the blobs that no image names any more. Only while it is paused. */
  async collectGarbage(signal?: AbortSignal): Promise<void> {
    const { program, logger, collectTimeoutMs: timeout = collectTimeoutDefaultMs } = this.#place;
    const found = await readJson<RegistryConfig>(this.#configFile);
    // That of a directory that was moved or copied names blobs elsewhere. A right one is left: the disk may be full.
    if (found?.storage.filesystem.rootdirectory !== this.blobsDir) await this.#configure(0);
    const argv = ["garbage-collect", this.#configFile];
    const child = spawn(program, argv, { stdio: "ignore", timeout, killSignal: "SIGKILL", signal });
    const ended = new Promise<string | null>((resolve) => {
      child.once("error", (error) => child.pid === undefined && resolve(error.message));
      child.once("exit", (code, by) => resolve(code === 0 ? null : `it ended with ${by ?? `exit code ${code}`}`));
    });
    // One that a killed server left would delete what is being pushed.
    await this.#note(child).catch((error: unknown) => {
      logger.warn({ error: describeError(error) }, "the garbage collection of the registry could not be noted");
    });
    const failure = await ended;
    if (failure !== null) logger.warn({ error: failure }, "garbage collection of the registry failed");
  }

  async stop(): Promise<void> {
    await this.whilePaused(async () => {});
  }

  async #start(): Promise<number> {
    await mkdir(this.blobsDir, { recursive: true, mode: 0o700 });
    await this.#endLeft().catch((error: unknown) => {
      throw doesNotStart(error);
    });
    const ports = new Ports();
    for (let triesLeft = startTriesMax - 1; ; triesLeft--) {
      try {
        return await this.#launch(await ports.take());
      } catch (error) {
        if (triesLeft === 0) throw doesNotStart(error);
      }
    }
  }

  async #launch(port: number): Promise<number> {
    await this.#configure(port);
    const child = spawn(this.#place.program, ["serve", this.#configFile], { stdio: ["ignore", "ignore", "pipe"] });
    const words = keepLastWords(child);
    const ended = new Promise<string>((resolve) => {
      child.once("error", (error) => resolve(error.message));
      child.once("exit", (code, signal) => resolve(`it ended with ${signal ?? `exit code ${code}`}. ${words()}`));
    });
    const failure = await this.#note(child).then(() => Promise.race([ended, answers(port)]), describeError);
    if (failure !== null) {
      child.kill("SIGKILL");
      throw new Error(failure);
    }
    this.#place.logger.info({ port, pid: child.pid }, "image registry started");
    this.#child = child;
    void ended.then((why) => {
      if (this.#child !== child) return;
      this.#running = undefined;
      this.#place.logger.warn({ error: why }, "image registry ended");
    });
    return port;
  }

  async #configure(port: number): Promise<void> {
    // JSON is YAML, which it reads.
    const config: RegistryConfig = {
      version: "0.1",
      log: { level: "warn", accesslog: { disabled: true } },
      storage: { filesystem: { rootdirectory: this.blobsDir }, delete: { enabled: true } },
      http: { addr: `127.0.0.1:${port}`, relativeurls: true, secret: randomBytes(16).toString("hex") },
    };
    await writeFile(this.#configFile, JSON.stringify(config), { mode: 0o600 });
  }

  /** For the server after this one, which ends what it finds. */
  async #note({ pid }: ChildProcess): Promise<void> {
    const identity = pid === undefined ? undefined : identify(pid);
    if (identity !== undefined) await writeJson(this.#identityFile, identity);
  }

  async #end(): Promise<void> {
    await this.#running?.catch(() => {});
    const child = this.#child;
    this.#child = undefined;
    this.#running = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), endTimeoutMs);
    await ended;
    clearTimeout(timer);
    await rm(this.#identityFile, { force: true });
  }

  async #endLeft(): Promise<void> {
    const left = await readJson<ProcessIdentity>(this.#identityFile);
    if (!left) return;
    signalProcess(left, "SIGTERM");
    const end = performance.now() + endTimeoutMs;
    while (isRunning(left)) {
      if (performance.now() > end) signalProcess(left, "SIGKILL");
      await sleep(50);
    }
  }
}

/** What we read of its configuration again. */
interface RegistryConfig {
  storage: { filesystem: { rootdirectory: string }; delete: object };
  [other: string]: unknown;
}

/** What it printed last, for the reason why it ended. */
function keepLastWords(child: ChildProcess): () => string {
  let words = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-1_000);
  });
  return () => words.trim();
}

/** @returns null once it answers, else why it is given up. */
async function answers(port: number): Promise<string | null> {
  const end = performance.now() + startTimeoutMs;
  while (performance.now() < end) {
    const isThere = await fetch(`http://127.0.0.1:${port}/v2/`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isThere) return null;
    await sleep(20);
  }
  return `it did not answer within ${startTimeoutMs / 1000} s`;
}

const doesNotStart = (error: unknown) =>
  new Error(`the image registry does not start: ${describeError(error)}`, { cause: error });
