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

/** @throws Error with the pid of the running server that uses a state directory, whose state must not be copied. */
export function checkUnused(stateDir: string): void {
  const owner = readOwner(path.join(stateDir, ".pierhead-lock"));
  if (owner === undefined || !isRunning(owner)) return;
  throw new Error(`process ${owner.pid} is using the state in ${stateDir}: what it still writes would not be copied`);
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
 * server executes it again. If it has stored a checkpoint, it loses its input, so it continues from there.
 * @returns what was done, for the log
 */
export function repairState(stateDir: string): string[] {
  const directory = path.join(stateDir, ".langgraph_api");
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const done = stateFiles.flatMap((name) => restoreUnreadable(path.join(directory, name)));
  return [...done, ...restartRuns(directory)];
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

interface Run {
  status?: string;
  thread_id?: string;
  kwargs?: { input?: unknown; command?: unknown; config?: { configurable?: Record<string, unknown> } };
}

function restartRuns(directory: string): string[] {
  const file = path.join(directory, ".langgraphjs_ops.json");
  const state = parse<{ json?: { runs?: Record<string, Run> }; meta?: unknown }>(readText(file));
  const running = Object.entries(state?.json?.runs ?? {}).filter(([, run]) => run.status === "running");
  if (running.length === 0) return [];
  const lastRuns = lastRunOfThreads(path.join(directory, ".langgraphjs_api.checkpointer.json"));
  const types = JSON.stringify(state?.meta ?? null);
  let continued = 0;
  for (const [id, run] of running) {
    run.status = "pending";
    // The file describes values that JSON lacks by their path, which must stay valid.
    const isPlain = !types.includes(`${id}.kwargs.input`) && !types.includes(`${id}.kwargs.command`);
    if (run.kwargs === undefined || !isPlain || lastRuns.get(run.thread_id ?? "") !== id) continue;
    continued += 1;
    run.kwargs.input = null;
    if (run.kwargs.command != null) run.kwargs.command = null;
    delete run.kwargs.config?.configurable?.["checkpoint_id"];
  }
  replaceFile(file, JSON.stringify(state));
  const again = running.length - continued;
  return [
    ...(continued === 0 ? [] : [`${continued} interrupted runs continue from their last checkpoint`]),
    ...(again === 0 ? [] : [`${again} interrupted runs start again`]),
  ];
}

/** Returns the run that stored the newest checkpoint of each thread. Ids of checkpoints rise with time. */
function lastRunOfThreads(file: string): Map<string, unknown> {
  type Stored = [checkpoint: unknown, metadata: unknown, parentId: unknown];
  const state = parse<{ json?: { storage?: Record<string, Record<string, Record<string, Stored>>> } }>(readText(file));
  const threads = Object.entries(state?.json?.storage ?? {}).map(([thread, namespaces]) => {
    const newest = Object.entries(namespaces[""] ?? {}).toSorted(([a], [b]) => (a < b ? 1 : -1))[0];
    const metadata = newest?.[1]?.[1];
    const text = typeof metadata === "string" ? Buffer.from(metadata, "base64").toString() : "";
    return [thread, parse<{ run_id?: unknown }>(text)?.run_id] as const;
  });
  return new Map(threads);
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
