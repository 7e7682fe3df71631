import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { link, mkdir, open, readFile, rename, rm, stat, utimes } from "node:fs/promises";
import { hostname } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../../../telemetry/log.ts";
import { DatabaseUnusable } from "../database-errors.ts";

export interface DirectoryLock {
  release(): Promise<void>;
}

/** The holder of a lock file. `scope` names the machine and its process table: `pid` means something only there. */
interface Holder {
  nonce: string;
  pid: number;
  startedAt: string;
  scope: string;
}

/** Renewal interval of the file's modification time, for processes that cannot see ours: another container or host. */
const renewIntervalMs = 2_000;

/** Five missed renewals: the holder is gone, or frozen and not writing. A frozen holder that resumes finds out through `onLost`. */
const silentMsDefault = 10_000;

/** Takeovers that crashed half-way may be nested. Each needs a crash within a millisecond, so more than a few is a loop. */
const takeoverDepthMax = 5;

/**
 * Takes the exclusive lock of a directory. The lock file is linked into place with its content, so no process reads
 * half of it. A lock of a process that is gone is taken over. Two processes that open one embedded database would
 * silently lose rows.
 * @param options.onLost called when another process has taken the lock over, because this one was frozen for longer
 * than `silentMs` (a paused container, a node that was cut off). Any further write of this process destroys the other's
 * data.
 * @throws DatabaseUnusable naming the process that holds it.
 */
export async function lockDirectory(
  file: string,
  logger: Logger,
  { silentMs = silentMsDefault, onLost = () => {} }: { silentMs?: number; onLost?: (by: string) => void } = {},
): Promise<DirectoryLock> {
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const holder: Holder = {
    nonce: randomUUID(),
    pid: process.pid,
    startedAt: startOf(process.pid) ?? "",
    scope: scope(),
  };
  await acquire(file, holder, (lock, found) => waitUntilGone(lock, found, { silentMs, logger }), 0);
  let isEnded = false;
  const renewal = setInterval(async () => {
    const found = await renew(file, holder, logger);
    if (found === undefined || isEnded) return;
    isEnded = true;
    clearInterval(renewal);
    onLost(`process ${found.pid} of ${found.scope}`);
  }, renewIntervalMs).unref();
  return {
    async release() {
      isEnded = true;
      clearInterval(renewal);
      if ((await read(file))?.nonce === holder.nonce) await rm(file, { force: true });
    },
  };
}

/** Resolves once the holder of a lock file is certainly gone; rejects when it certainly runs. */
type Gone = (file: string, holder: Holder) => Promise<void>;

async function acquire(file: string, holder: Holder, gone: Gone, depth: number): Promise<void> {
  if (depth > takeoverDepthMax) throw new DatabaseUnusable(`too many stale lock files: remove ${file}`);
  const draft = `${file}.${holder.nonce}.draft`;
  await writeSynced(draft, JSON.stringify(holder));
  try {
    while (!(await isLinked(draft, file))) {
      const found = await read(file);
      if (found === undefined) continue;
      await gone(file, found);
      // A second lock protects the replacement of this stale lock, so that only one of two processes that saw it
      // replaces it.
      const takeover = `${file}.${found.nonce}`;
      await acquire(takeover, holder, gone, depth + 1);
      try {
        if ((await read(file))?.nonce === found.nonce) {
          await rename(draft, file);
          return;
        }
      } finally {
        await rm(takeover, { force: true });
      }
    }
  } finally {
    await rm(draft, { force: true });
  }
}

/** Syncs the content before the file is linked, because a power cut could otherwise leave an empty lock file. */
async function writeSynced(file: string, content: string): Promise<void> {
  const handle = await open(file, "w", 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function isLinked(draft: string, file: string): Promise<boolean> {
  try {
    await link(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** In the same process table the answer is known at once; elsewhere only the renewals show whether the holder runs. */
async function waitUntilGone(
  file: string,
  holder: Holder,
  { silentMs, logger }: { silentMs: number; logger: Logger },
): Promise<void> {
  if (holder.scope === scope()) {
    if (startOf(holder.pid) !== holder.startedAt) return;
    throw new DatabaseUnusable(
      `the data directory is in use by process ${holder.pid} (lock file ${file}): stop it first`,
    );
  }
  const end = Date.now() + silentMs + renewIntervalMs;
  logger.info(
    { lock: file, holder: holder.scope },
    "waiting to see whether another host still uses the embedded database",
  );
  for (;;) {
    const renewedAt = await stat(file).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    );
    if (Date.now() - renewedAt > silentMs) return;
    if (Date.now() > end) {
      throw new DatabaseUnusable(
        `the data directory is in use by process ${holder.pid} of ${holder.scope} (lock file ${file}): stop it first`,
      );
    }
    await sleep(200);
  }
}

/** @returns the current holder if it is another process, which then renews the file. */
async function renew(file: string, holder: Holder, logger: Logger): Promise<Holder | undefined> {
  try {
    const found = await read(file);
    if (found !== undefined && found.nonce !== holder.nonce) return found;
    const now = new Date();
    await utimes(file, now, now);
  } catch (error) {
    logger.warn({ lock: file, error: (error as Error).message }, "lock file cannot be renewed");
  }
  return undefined;
}

/** The holder of a file without valid content, as a power cut may leave it: only its renewals tell whether it runs. */
const unknownHolder: Holder = { nonce: "unknown", pid: 0, startedAt: "", scope: "an unknown host" };

async function read(file: string): Promise<Holder | undefined> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new DatabaseUnusable(`the lock file ${file} cannot be read: ${(error as Error).message}`);
  }
  try {
    return (JSON.parse(text) as Holder | null) ?? unknownHolder;
  } catch {
    return unknownHolder;
  }
}

/** Returns the start time of a process, or undefined when it is gone. The pid alone may have been reused. */
function startOf(pid: number): string | undefined {
  try {
    if (process.platform === "linux") {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      // Fields after the command, which may contain blanks: state is 3, start time in clock ticks 22. A zombie cannot write.
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return fields[0] === "Z" ? undefined : fields[19];
    }
    const { stdout } = spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" });
    return stdout.trim() || undefined;
  } catch {
    return undefined;
  }
}

function scope(): string {
  if (process.platform !== "linux") return hostname();
  const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  return `${hostname()} ${bootId} ${readlinkSync("/proc/self/ns/pid")}`;
}
