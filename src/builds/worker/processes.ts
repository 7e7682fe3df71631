import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Environment variable that every process of a build carries, whatever session or process group it moves to. It includes
 * the worker's pid, because a server that was suspended past its lease may have lost the build to another server on the
 * same machine, which has restarted it. Each server kills only the processes of its own worker.
 */
export const buildMark = (build: { buildId: string; workerPid: number }) => ({
  PIERHEAD_BUILD_ID: `${build.buildId}.${build.workerPid}`,
});

/** A process with its start time, so that a recycled pid is not mistaken for it. */
export interface ProcessIdentity {
  pid: number;
  /** Linux: boot id and field 22 of /proc/<pid>/stat; elsewhere the start time as ps(1) prints it. */
  startedAtTicks: string;
}

/** Returns the start time of a process. @returns null when no such process runs (a zombie does not run). */
export function startedAtTicks(pid: number): string | null {
  try {
    if (process.platform !== "linux") return psStartTime(pid);
    const { state, startedAtTicks: ticks } = parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
    return isGone(state) ? null : `${bootId()}:${ticks}`;
  } catch {
    return null;
  }
}

/** No process should survive SIGKILL for longer than this; one that does hangs in the kernel. */
const killTimeoutMs = 20_000;

/**
 * Kills every process of a build and waits until none is left: the processes with the build's mark in their
 * environment, those in the leader's session, and the descendants of both.
 *
 * @param build.isSessionOurs the leader was our own child until a moment ago, so its session belongs to the build even if
 * the leader is dead: the kernel does not reuse a pid that still names a session. Otherwise only a living leader proves this.
 * @param build.sparePid not killed: the worker itself, when it cleans up.
 * @throws Error when a process survives, with its pid.
 */
export async function killBuildProcesses(build: {
  buildId: string;
  leader: ProcessIdentity;
  isSessionOurs: boolean;
  sparePid?: number;
}): Promise<void> {
  const { buildId, leader, isSessionOurs, sparePid } = build;
  const ticks = startedAtTicks(leader.pid);
  const isOurs = ticks === leader.startedAtTicks || (ticks === null && isSessionOurs);
  const root = isOurs ? leader.pid : null;
  const mark = Buffer.from(
    `\0${Object.entries(buildMark({ buildId, workerPid: leader.pid }))
      .flat()
      .join("=")}\0`,
  );
  const end = performance.now() + killTimeoutMs;
  for (;;) {
    const found = membersOf(await listProcesses(mark), root).filter((pid) => pid !== sparePid);
    if (found.length === 0) return;
    if (performance.now() > end) throw new Error(`processes ${found.join(", ")} of build ${buildId} cannot be killed`);
    for (const pid of found) kill(pid);
    await sleep(10);
  }
}

interface Listed {
  pid: number;
  parentPid: number;
  groupId: number;
  sessionId: number;
  isMarked: boolean;
}

const isGone = (state: string) => state === "Z" || state === "X";

let knownBootId: string | undefined;

/** Returns the boot id. Ticks count from the start of the machine, so they identify a process within one boot only. */
function bootId(): string {
  knownBootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  return knownBootId;
}

function psStartTime(pid: number): string | null {
  return spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).stdout.trim() || null;
}

function membersOf(processes: Listed[], root: number | null): number[] {
  const members = new Set(
    processes
      .filter(
        ({ pid, groupId, sessionId, isMarked }) =>
          isMarked || (root !== null && [pid, groupId, sessionId].includes(root)),
      )
      .map(({ pid }) => pid),
  );
  for (let size = -1; size !== members.size; ) {
    size = members.size;
    for (const { pid, parentPid } of processes) if (members.has(parentPid)) members.add(pid);
  }
  return [...members].filter((pid) => pid > 1 && pid !== process.pid);
}

/** @param mark an environment variable as it appears in /proc, with a zero byte on either side. */
async function listProcesses(mark: Buffer): Promise<Listed[]> {
  if (process.platform !== "linux") return listWithPs();
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const listed = await Promise.all(pids.map((pid) => readProcess(pid, mark)));
  return listed.filter((process) => process !== null);
}

async function readProcess(pid: string, mark: Buffer): Promise<Listed | null> {
  try {
    const { state, ...stat } = parseStat(await readFile(`/proc/${pid}/stat`, "utf8"));
    if (isGone(state)) return null;
    // Neither the environment of another user nor the process is accessible to this one.
    const environment = await readFile(`/proc/${pid}/environ`).catch(() => Buffer.alloc(0));
    const isMarked = Buffer.concat([Buffer.alloc(1), environment]).includes(mark);
    return { pid: Number(pid), ...stat, isMarked };
  } catch {
    return null; // the process has ended
  }
}

/**
 * Parses /proc/PID/stat. The command name in parentheses may contain spaces and parentheses, so fields are counted from its
 * end.
 */
function parseStat(stat: string) {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [parentPid, groupId, sessionId] = fields.slice(1, 4).map(Number) as [number, number, number];
  return { state: fields[0] ?? "", parentPid, groupId, sessionId, startedAtTicks: fields[19] ?? "" };
}

/** Lists processes without /proc. Environments are not visible then, so only the process tree and the leader's group count. */
function listWithPs(): Listed[] {
  const { stdout } = spawnSync("ps", ["-axo", "pid=,ppid=,pgid=,stat="], { encoding: "utf8" });
  return stdout.split("\n").flatMap((line) => {
    const [pid, parentPid, groupId, state] = line.trim().split(/\s+/);
    if (state === undefined || state.startsWith("Z")) return [];
    return [
      { pid: Number(pid), parentPid: Number(parentPid), groupId: Number(groupId), sessionId: 0, isMarked: false },
    ];
  });
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended, or it may not be killed: the next listing shows which.
  }
}
