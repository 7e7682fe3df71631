import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readdir, readFile, readlink } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { childEnvironment } from "../../../base/child-environment.ts";

/** Identity of one process that is never reused: a recycled pid has another start time, and another boot another id. */
export interface ProcessIdentity {
  pid: number;
  /** Linux: boot id and field 22 of /proc/<pid>/stat (clock ticks since boot). Elsewhere what `ps -o lstart=` prints. */
  startedAt: string;
}

/** Markers in the environment of everything that a replica starts, in any session or process group. */
export const replicaIdVariable = "PIERHEAD_REPLICA_ID";
export const dataDirIdVariable = "PIERHEAD_DATA_DIR_ID";
/** Marks everything that one program beside a replica starts, so that nothing of it outlives its session. */
export const execIdVariable = "PIERHEAD_EXEC_ID";

/** Returns the identity of the process that runs under a pid; undefined when there is none. A zombie does not run. */
export function identify(pid: number): ProcessIdentity | undefined {
  try {
    if (process.platform !== "linux") return identifyWithPs(pid);
    const { state, startTicks } = parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
    return isGone(state) ? undefined : { pid, startedAt: `${bootId()}:${startTicks}` };
  } catch {
    return undefined;
  }
}

export const isRunning = ({ pid, startedAt }: ProcessIdentity) => identify(pid)?.startedAt === startedAt;

/** Sends a signal unless this process has ended. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): void {
  if (isRunning(identity)) tryKill(identity.pid, signal);
}

/** Sends a signal to processes that `findProcesses` has just found. */
export function signalAll(pids: number[], signal: NodeJS.Signals): void {
  for (const pid of pids) tryKill(pid, signal);
}

/** How to find the processes of one replica. */
export interface ReplicaProcesses {
  /** Value of PIERHEAD_REPLICA_ID; undefined: any replica. */
  replicaId?: string;
  /** Value of PIERHEAD_DATA_DIR_ID. Two servers on one machine leave each other's replicas alone. */
  dataDirId: string;
  /** First process and leader of the session. */
  leader?: ProcessIdentity;
  /** The leader is or recently was our own child: the kernel does not reuse a pid that still names a session. */
  isLeaderOurs?: boolean;
  /** Lists the processes of its cgroup. */
  others?: () => Promise<number[]>;
}

/**
 * Returns all running processes of a replica: the leader's session, processes with the markers in their environment, and
 * the processes in the cgroup. Without /proc: the leader's process group.
 */
export async function findProcesses(replica: ReplicaProcesses): Promise<number[]> {
  if (process.platform !== "linux") return replica.leader === undefined ? [] : findGroupWithPs(replica.leader.pid);
  const { leader, isLeaderOurs = false } = replica;
  // Session 0 belongs to the kernel and session 1 to the init system.
  const isKnown = leader !== undefined && leader.pid > 1 && (isLeaderOurs || isRunning(leader));
  const session = isKnown ? leader.pid : undefined;
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const members = await Promise.all(pids.map((pid) => isMember(pid, replica, session)));
  const found = new Set(pids.filter((_, index) => members[index]));
  for (const pid of (await replica.others?.()) ?? []) if (identify(pid) !== undefined) found.add(pid);
  found.delete(process.pid);
  return [...found];
}

/** No process survives SIGKILL this long unless it hangs in the kernel. */
const killTimeoutMs = 10_000;

/**
 * Kills a replica with all its descendants and waits until none is left.
 * @throws Error with the pids that did not exit.
 */
export async function killProcesses(replica: ReplicaProcesses): Promise<void> {
  const end = performance.now() + killTimeoutMs;
  for (;;) {
    const found = await findProcesses(replica);
    if (found.length === 0) return;
    if (performance.now() > end) throw new Error(`processes ${found.join(", ")} cannot be killed`);
    signalAll(found, "SIGKILL");
    await sleep(10);
  }
}

/**
 * Returns whether the replica or a foreign process listens on a loopback port. Without /proc this cannot be determined, so
 * it returns `replica`: a running replica and an answering port must suffice.
 */
export async function findPortOwner(port: number, replica: ReplicaProcesses): Promise<"replica" | "foreign" | "none"> {
  if (process.platform !== "linux") return "replica";
  const inode = await listenerInode(port);
  if (inode === undefined) return "none";
  // Nearly always the first process listens, and then no other process of the machine has to be read.
  const { leader } = replica;
  if (leader !== undefined && isRunning(leader) && (await holdsSocket(leader.pid, inode)) && isRunning(leader)) {
    return "replica";
  }
  for (const pid of await findProcesses(replica)) if (await holdsSocket(pid, inode)) return "replica";
  // The port may have changed hands while the replica's processes were being read.
  return (await listenerInode(port)) === inode ? "foreign" : "none";
}

/**
 * Returns the ports on which the replica itself accepts connections to 127.0.0.1, lowest first. A port does not count if another
 * program listens on it at a more exact address, because connections would reach that program.
 */
export async function findReplicaPorts(replica: ReplicaProcesses): Promise<number[]> {
  if (process.platform !== "linux") return [];
  const pids = await findProcesses(replica);
  const held = new Set((await Promise.all(pids.map(socketsOf))).flat());
  const sockets = await listeningSockets();
  const ports = new Set(sockets.filter(({ inode }) => held.has(inode)).map(({ port }) => port));
  return [...ports].filter((port) => held.has(reachedFromLoopback(sockets, port) ?? "")).sort((a, b) => a - b);
}

async function isMember(pid: number, replica: ReplicaProcesses, session: number | undefined): Promise<boolean> {
  try {
    const stat = parseStat(await readFile(`/proc/${pid}/stat`, "utf8"));
    if (isGone(stat.state)) return false;
    if (stat.sessionId === session) return true;
    // The environment of another user's process is not readable, and that process is not ours either.
    const environment = `\0${await readFile(`/proc/${pid}/environ`, "latin1")}`;
    if (!environment.includes(`\0${dataDirIdVariable}=${replica.dataDirId}\0`)) return false;
    return replica.replicaId === undefined || environment.includes(`\0${replicaIdVariable}=${replica.replicaId}\0`);
  } catch {
    return false; // ended while it was being read
  }
}

/** Returns the id of the replica that a marked process belongs to. */
export async function replicaOf(pid: number): Promise<string | undefined> {
  const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
  const entry = environment.split("\0").find((variable) => variable.startsWith(`${replicaIdVariable}=`));
  return entry?.slice(replicaIdVariable.length + 1);
}

/**
 * Kills a program beside a replica with everything that it started: what has its mark, and the sessions of what has it, because a
 * program may clear its environment. Linux only.
 */
export function killExec(execId: string): Promise<void> {
  return killAll([`\0${execIdVariable}=${execId}\0`]);
}

/** Kills the programs beside replicas that an earlier server, which crashed, left behind. Linux only. */
export async function killLeftExecs(dataDirId: string): Promise<void> {
  if (process.platform !== "linux") return;
  await killAll([`\0${dataDirIdVariable}=${dataDirId}\0`, `\0${execIdVariable}=`]);
}

/** Kills processes with all these marks in their environment, and their sessions: no program beside a replica shares one. */
async function killAll(marks: string[]): Promise<void> {
  const end = performance.now() + killTimeoutMs;
  const sessions = new Set<number>();
  for (;;) {
    const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry)).map(Number);
    const read = async (pid: number) => {
      const stat = parseStat(await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ""));
      if (stat.state === "" || isGone(stat.state)) return [];
      const environment = `\0${await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "")}`;
      if (marks.every((mark) => environment.includes(mark))) sessions.add(stat.sessionId);
      return [{ pid, sessionId: stat.sessionId }];
    };
    const all = (await Promise.all(pids.map(read))).flat();
    const found = all.filter(({ pid, sessionId }) => sessions.has(sessionId) && pid !== process.pid);
    if (found.length === 0 || performance.now() > end) return;
    signalAll(
      found.map(({ pid }) => pid),
      "SIGKILL",
    );
    await sleep(10);
  }
}

const isGone = (state: string) => state === "Z" || state === "X";

let knownBootId: string | undefined;

function bootId(): string {
  knownBootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  return knownBootId;
}

/** The command name in parentheses may contain spaces and parentheses, so fields are counted after its last one. */
function parseStat(stat: string) {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return { state: fields[0] ?? "", sessionId: Number(fields[3]), startTicks: fields[19] ?? "" };
}

/** Returns the inode of the socket that accepts connections to 127.0.0.1:port. */
const listenerInode = async (port: number) => reachedFromLoopback(await listeningSockets(), port);

interface ListeningSocket {
  /** As in /proc/net/tcp: hexadecimal, in the byte order of the machine. */
  address: string;
  port: number;
  inode: string;
}

/** Columns as in proc(5): local address, state 0A = LISTEN, inode. */
async function listeningSockets(): Promise<ListeningSocket[]> {
  const tables = await Promise.all(
    ["/proc/net/tcp", "/proc/net/tcp6"].map((file) => readFile(file, "utf8").catch(() => "")),
  );
  return tables
    .flatMap((table) => table.split("\n"))
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state]) => state === "0A")
    .map(([, local = "", , , , , , , , inode = ""]) => {
      const [address = "", port = ""] = local.split(":");
      return { address, port: Number.parseInt(port, 16), inode };
    });
}

/** An exact address takes precedence over a wildcard, as in the kernel. */
function reachedFromLoopback(sockets: readonly ListeningSocket[], port: number): string | undefined {
  const reaches = (address: string) =>
    sockets.find((socket) => socket.port === port && socket.address === address)?.inode;
  const mapped = `${"0".repeat(16)}FFFF00000100007F`; // ::ffff:127.0.0.1, where Java listens
  return reaches("0100007F") ?? reaches(mapped) ?? reaches("0".repeat(8)) ?? reaches("0".repeat(32));
}

async function holdsSocket(pid: number, inode: string): Promise<boolean> {
  return (await socketsOf(pid)).includes(inode);
}

/** Returns the inodes of the sockets that a process holds. */
async function socketsOf(pid: number): Promise<string[]> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const targets = await Promise.all(descriptors.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => "")));
  return targets.flatMap((target) => /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? []);
}

function identifyWithPs(pid: number): ProcessIdentity | undefined {
  const { stdout } = spawnSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], {
    encoding: "utf8",
    env: childEnvironment(),
  });
  const [, state = "Z", startedAt] = /^(\S+)\s+(.+)$/.exec(stdout.trim()) ?? [];
  return startedAt === undefined || isGone(state.charAt(0)) ? undefined : { pid, startedAt };
}

function findGroupWithPs(groupId: number): number[] {
  const { stdout } = spawnSync("ps", ["-axo", "pid=,pgid=,stat="], { encoding: "utf8", env: childEnvironment() });
  return stdout.split("\n").flatMap((line) => {
    const [pid, group, state = "Z"] = line.trim().split(/\s+/);
    return Number(group) === groupId && !isGone(state.charAt(0)) ? [Number(pid)] : [];
  });
}

function tryKill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended in the meantime: the next poll notices that.
  }
}
