import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { identify, isRunning, type ProcessIdentity } from "../system/processes.ts";

/** Lock of the one process that may use a state directory. */
export interface StateLock {
  release(): void;
}

/** Two processes that take over the same stale lock at the same time write it well within this interval. */
const takeoverSettleMs = 200;

/**
 * Locks a state directory for this process. Two servers on one directory destroy data: each has all of it in memory and
 * writes it back, so the one that stops last overwrites what the other has saved.
 * @throws Error with the pid of the running process that holds the lock
 */
export async function lockState(stateDir: string): Promise<StateLock> {
  const file = path.join(stateDir, ".pierhead-lock");
  const own = identify(process.pid);
  if (own === undefined) throw new Error("this process cannot read its own start time");
  const draft = `${file}.${own.pid}`;
  writeFileSync(draft, JSON.stringify(own), { mode: 0o600 });
  try {
    linkSync(draft, file); // creates the lock with its content, and fails when it exists
  } catch {
    refuseLivingOwner(file, stateDir, own);
    renameSync(draft, file);
    await sleep(takeoverSettleMs);
    refuseLivingOwner(file, stateDir, own);
  } finally {
    rmSync(draft, { force: true });
  }
  return {
    release() {
      if (readOwner(file)?.pid === own.pid) rmSync(file, { force: true });
    },
  };
}

function refuseLivingOwner(file: string, stateDir: string, own: ProcessIdentity): void {
  const owner = readOwner(file);
  if (owner === undefined || owner.pid === own.pid || !isRunning(owner)) return;
  throw new Error(`process ${owner.pid} is using the state in ${stateDir}; two servers on it would destroy it`);
}

const readOwner = (file: string) => parse<ProcessIdentity>(readText(file));

/** Files of the open LangGraph.js server in `<state dir>/.langgraph_api/`, all of them JSON. */
const stateFiles = [".langgraphjs_ops.json", ".langgraphjs_api.checkpointer.json", ".langgraphjs_api.store.json"];

/**
 * Repairs the state of an earlier server before a start. Call it while no other process uses the state.
 *
 * The server overwrites its files without a draft, so a killed server may leave half a file, which the next one would
 * silently replace with an empty one. Such a file is moved aside and replaced by the copy of the previous start. A run that
 * was executing would stay `running`, and later runs of its thread would wait behind it: it becomes `pending`, so the
 * server executes it again.
 * @returns what was done, for the log
 */
export function repairState(stateDir: string): string[] {
  const directory = path.join(stateDir, ".langgraph_api");
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const done = stateFiles.flatMap((name) => restoreUnreadable(path.join(directory, name)));
  return [...done, ...restartRuns(path.join(directory, ".langgraphjs_ops.json"))];
}

function restoreUnreadable(file: string): string[] {
  if (!existsSync(file)) return [];
  const copy = `${file}.copy`;
  if (parse(readText(file)) !== undefined) {
    copyFileSync(file, `${copy}.draft`);
    renameSync(`${copy}.draft`, copy);
    return [];
  }
  const aside = `${file}.unreadable-${Date.now()}`;
  renameSync(file, aside);
  if (!existsSync(copy)) return [`state file was unreadable and is now ${aside}`];
  copyFileSync(copy, `${file}.draft`);
  renameSync(`${file}.draft`, file);
  return [`state file was unreadable and is now ${aside}; restored the copy of the last start`];
}

function restartRuns(file: string): string[] {
  const state = parse<{ json?: { runs?: Record<string, { status?: string }> } }>(readText(file));
  const running = Object.values(state?.json?.runs ?? {}).filter((run) => run.status === "running");
  if (running.length === 0) return [];
  for (const run of running) run.status = "pending";
  replaceFile(file, JSON.stringify(state));
  return [`${running.length} interrupted runs start again`];
}

/** Replaces a file atomically: it has its old or its complete new content, also after a power cut. */
function replaceFile(file: string, text: string): void {
  const draft = openSync(`${file}.draft`, "w", 0o600);
  try {
    writeFileSync(draft, text);
    fsyncSync(draft);
  } finally {
    closeSync(draft);
  }
  renameSync(`${file}.draft`, file);
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

function parse<T>(text: string): T | undefined {
  try {
    return JSON.parse(text) as T;
  } catch {
    return undefined;
  }
}
