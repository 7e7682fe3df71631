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

/** Held by the one process that may use a state directory. */
export interface StateLock {
  release(): void;
}

/** Two who take over the same stale lock at once write one after the other well within this. */
const takeoverSettleMs = 200;

/**
 * Takes a state directory for this process. Two servers on one directory destroy data: each has all of it in memory and
 * writes it back, the one that stops last over what the other has saved.
 * @throws Error naming the living process that has it
 */
export async function lockState(stateDir: string): Promise<StateLock> {
  const file = path.join(stateDir, ".pierhead-lock");
  const own = identify(process.pid);
  if (own === undefined) throw new Error("this process cannot see its own start time");
  const draft = `${file}.${own.pid}`;
  writeFileSync(draft, JSON.stringify(own), { mode: 0o600 });
  try {
    linkSync(draft, file); // appears with its content, and fails when it is there
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

/** Files of the open LangGraph.js server below `<state dir>/.langgraph_api/`, all of them JSON. */
const stateFiles = [".langgraphjs_ops.json", ".langgraphjs_api.checkpointer.json", ".langgraphjs_api.store.json"];

/**
 * Makes what an earlier server left fit to start from; called while nobody else uses it.
 *
 * The server writes its files in place, so one that is killed may leave half a file, which the next would silently
 * replace by an empty one: such a file is put aside, and the copy made at the start before takes its place. And a run
 * that was executing would stay `running` for ever, with every later run of its thread waiting behind it: it becomes
 * `pending`, and the server executes it again.
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
  return [`state file was unreadable and is now ${aside}; the copy of the last start takes its place`];
}

function restartRuns(file: string): string[] {
  const state = parse<{ json?: { runs?: Record<string, { status?: string }> } }>(readText(file));
  const running = Object.values(state?.json?.runs ?? {}).filter((run) => run.status === "running");
  if (running.length === 0) return [];
  for (const run of running) run.status = "pending";
  replaceFile(file, JSON.stringify(state));
  return [`${running.length} interrupted runs start again`];
}

/** The file has its old content or all of the new one, also after a power cut. */
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
