import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { accessSync, constants } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { childEnvironment } from "../base/child-environment.ts";
import { readJson, writeJson } from "../compute/json-file.ts";
import { identify, isRunning, type ProcessIdentity, signalProcess } from "../compute/process/system/processes.ts";
import { describeError, type Logger } from "../telemetry/log.ts";
import { fetchOverSocket } from "./socket-fetch.ts";

export interface RegistryProcessOptions {
  /** Directory for blobs, configuration and the identity of the process. */
  directory: string;
  /** Absolute path of the CNCF distribution registry, `registry` or Debian's `docker-registry`. */
  program: string;
  logger: Logger;
  collectTimeoutMs?: number;
}

/** The registry reads one small file and listens, which takes 50 ms, and a second on a busy machine. */
const startTimeoutMs = 20_000;

/** Its uploads end with their connections, so it has nothing else to finish. */
const endTimeoutMs = 5_000;

/** Pushes and pulls wait during a collection. A collection that is killed is completed by the next one. */
const collectTimeoutDefaultMs = 300_000;

/** The kernel allows 108 bytes for the path of a socket on Linux and 104 on macOS. */
const socketPathBytesMax = 100;

/** Name of the directory of a socket whose path would be too long in the data directory. */
const shortDirectoryPrefix = path.join(tmpdir(), "pierhead-registry-socket-");

/** Returns the program where Debian or people install it, or null if it is in none of these directories. */
export function findRegistryProgram(): string | null {
  for (const directory of ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"]) {
    for (const name of ["docker-registry", "registry"]) {
      const file = path.join(directory, name);
      try {
        accessSync(file, constants.X_OK);
        return file;
      } catch {
        // not in this directory
      }
    }
  }
  return null;
}

/**
 * Registry that stores pushed images: a child process behind `RegistryProxy`. It listens on a socket in a directory that only
 * the server's own user may enter, because the registry itself checks no token. It starts on first use and again after it
 * has exited. A process that a killed server left behind is stopped first.
 */
export class RegistryProcess {
  readonly #options: RegistryProcessOptions;
  readonly #identityFile: string;
  readonly #configFile: string;
  #running: Promise<string> | undefined;
  #child: ChildProcess | undefined;
  /** Requests wait while a garbage collection changes the registry's files. */
  #pause: Promise<unknown> = Promise.resolve();

  constructor(options: RegistryProcessOptions) {
    this.#options = options;
    this.#identityFile = path.join(options.directory, "process.json");
    this.#configFile = path.join(options.directory, "config.json");
  }

  /** Root of the registry's files. */
  get blobsDir(): string {
    return path.join(this.#options.directory, "data");
  }

  /**
   * Returns the path of the socket of the running registry, and starts it if necessary.
   * @throws Error when it does not start; the next call tries again.
   */
  async socket(): Promise<string> {
    await this.#pause;
    this.#running ??= this.#start().catch((error: unknown) => {
      this.#running = undefined;
      throw error;
    });
    return this.#running;
  }

  /** Stops the registry, runs `act` on its files, and then lets it start again. */
  whilePaused(act: () => Promise<void>): Promise<void> {
    const paused = this.#pause.then(async () => {
      await this.#end();
      await act();
    });
    this.#pause = paused.catch(() => {});
    return paused;
  }

  /** Deletes blobs that no image names any more. Call it only while the registry is paused. */
  async collectGarbage(signal?: AbortSignal): Promise<void> {
    const { program, logger, collectTimeoutMs: timeout = collectTimeoutDefaultMs } = this.#options;
    const found = await readJson<RegistryConfig>(this.#configFile);
    // The file of a moved or copied directory names blobs elsewhere. A correct one is kept, because the disk may be full.
    if (found?.storage.filesystem.rootdirectory !== this.blobsDir) await this.#configure("");
    const argv = ["garbage-collect", this.#configFile];
    const child = spawn(program, argv, {
      ...{ stdio: "ignore", timeout, killSignal: "SIGKILL", signal },
      env: childEnvironment(),
    });
    const ended = new Promise<string | null>((resolve) => {
      child.once("error", (error) => child.pid === undefined && resolve(error.message));
      child.once("exit", (code, by) => resolve(code === 0 ? null : `it exited with ${by ?? `exit code ${code}`}`));
    });
    // A collection that a killed server left running would delete what is being pushed.
    await this.#recordIdentity(child).catch((error: unknown) => {
      logger.warn({ error: describeError(error) }, "could not record the registry's garbage collection");
    });
    const failure = await ended;
    if (failure !== null) logger.warn({ error: failure }, "registry garbage collection failed");
  }

  async stop(): Promise<void> {
    await this.whilePaused(async () => {});
  }

  async #start(): Promise<string> {
    await mkdir(this.blobsDir, { recursive: true, mode: 0o700 });
    try {
      await this.#stopLeftover();
      return await this.#launch(await this.#makeSocketPath());
    } catch (error) {
      throw startFailure(error);
    }
  }

  /** Creates the directory of the socket. */
  async #makeSocketPath(): Promise<string> {
    const directory = path.join(this.#options.directory, "socket");
    const socket = path.join(directory, "registry");
    if (Buffer.byteLength(socket) > socketPathBytesMax) {
      await this.#removeShortDirectory();
      return path.join(await mkdtemp(shortDirectoryPrefix), "registry");
    }
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await chmod(directory, 0o700);
    return socket;
  }

  /** Removes the directory outside the data directory that the last start has created. */
  async #removeShortDirectory(): Promise<void> {
    const last = await readJson<RegistryConfig>(this.#configFile).catch(() => undefined);
    const directory = path.dirname(last?.http?.addr ?? "");
    if (directory.startsWith(shortDirectoryPrefix)) await rm(directory, { recursive: true, force: true });
  }

  async #launch(socket: string): Promise<string> {
    await this.#configure(socket);
    const child = spawn(this.#options.program, ["serve", this.#configFile], {
      stdio: ["ignore", "ignore", "pipe"],
      env: childEnvironment(),
    });
    const lastOutput = collectLastOutput(child);
    const ended = new Promise<string>((resolve) => {
      child.once("error", (error) => resolve(error.message));
      child.once("exit", (code, signal) => resolve(`it exited with ${signal ?? `exit code ${code}`}. ${lastOutput()}`));
    });
    const failure = await this.#recordIdentity(child).then(
      () => Promise.race([ended, waitUntilReady(socket)]),
      describeError,
    );
    if (failure !== null) {
      child.kill("SIGKILL");
      throw new Error(failure);
    }
    this.#options.logger.info({ socket, pid: child.pid }, "image registry started");
    this.#child = child;
    void ended.then((reason) => {
      if (this.#child !== child) return;
      this.#running = undefined;
      this.#options.logger.warn({ error: reason }, "image registry exited");
    });
    return socket;
  }

  async #configure(socket: string): Promise<void> {
    // The registry reads YAML, and JSON is valid YAML.
    const config: RegistryConfig = {
      version: "0.1",
      log: { level: "warn", accesslog: { disabled: true } },
      storage: { filesystem: { rootdirectory: this.blobsDir }, delete: { enabled: true } },
      http: { net: "unix", addr: socket, relativeurls: true, secret: randomBytes(16).toString("hex") },
    };
    await writeFile(this.#configFile, JSON.stringify(config), { mode: 0o600 });
  }

  /** Records the process, so that the next server can stop it after a crash. */
  async #recordIdentity({ pid }: ChildProcess): Promise<void> {
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
    await this.#removeShortDirectory();
  }

  async #stopLeftover(): Promise<void> {
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

/** The part of the configuration that is read back. */
interface RegistryConfig {
  storage: { filesystem: { rootdirectory: string }; delete: object };
  http?: { addr?: string; [other: string]: unknown };
  [other: string]: unknown;
}

/** Collects the last 1,000 characters of stderr, which explain an exit. */
function collectLastOutput(child: ChildProcess): () => string {
  let output = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    output = (output + text).slice(-1_000);
  });
  return () => output.trim();
}

/** Resolves with null once the registry answers, or with the reason why it is given up. */
async function waitUntilReady(socket: string): Promise<string | null> {
  const end = performance.now() + startTimeoutMs;
  while (performance.now() < end) {
    const isReady = await fetchOverSocket(socket, "http://registry/v2/").then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return null;
    await sleep(20);
  }
  return `it did not answer within ${startTimeoutMs / 1000} s`;
}

const startFailure = (error: unknown) =>
  new Error(`the image registry does not start: ${describeError(error)}`, { cause: error });
