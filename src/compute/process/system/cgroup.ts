import { mkdir, readdir, readFile, rmdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Where replicas can be limited on this machine. Determined once at start. */
export interface CgroupHome {
  memory: Controller | Missing;
  cpu: Controller | Missing;
}

export interface Controller {
  version: 1 | 2;
  /** An existing directory in which we may create cgroups. */
  directory: string;
}

/** Why a limit cannot be enforced, as the user reads it. */
export interface Missing {
  because: string;
}

export interface Cgroup {
  /** One directory per hierarchy; empty when nothing can be enforced. */
  directories: string[];
  /** `enforced` or a sentence that says why not. */
  limits: { memory: string; cpu: string };
}

/**
 * Finds writable memory and cpu controllers: of cgroup v1 in our own hierarchies, or else of cgroup v2 in our own cgroup
 * or its parent. Cgroups are created below or beside our own, so limits of this server apply to the replicas, too.
 * @param probeName name of a cgroup that is created and removed as a test
 */
export async function findCgroups(probeName: string): Promise<CgroupHome> {
  if (process.platform !== "linux") {
    const missing = { because: `not enforced: ${process.platform} has no cgroups` };
    return { memory: missing, cpu: missing };
  }
  const [mounts, groups] = await Promise.all(
    ["/proc/self/mountinfo", "/proc/self/cgroup"].map((file) => readFile(file, "utf8").catch(() => "")),
  );
  const find = async (name: "memory" | "cpu"): Promise<Controller | Missing> => {
    for (const candidate of candidates(mounts ?? "", groups ?? "", name)) {
      if (await isUsable(candidate, name, probeName)) return candidate;
    }
    return { because: `not enforced: no cgroup with the ${name} controller is writable for this process` };
  };
  return { memory: await find("memory"), cpu: await find("cpu") };
}

/** Creates the cgroup of one replica and sets its limits. Repeating it updates the same cgroup. */
export async function createCgroup(
  home: CgroupHome,
  name: string,
  { memoryMib, cpuCores }: { memoryMib: number; cpuCores: number },
): Promise<Cgroup> {
  const directories = new Set<string>();
  const limit = async (where: Controller | Missing, settings: (version: 1 | 2) => Setting[]): Promise<string> => {
    if ("because" in where) return where.because;
    const directory = path.join(where.directory, name);
    try {
      await mkdir(directory, { recursive: true });
      directories.add(directory);
      for (const setting of settings(where.version)) await applySetting(directory, setting);
      return "enforced";
    } catch (error) {
      return `not enforced: ${(error as Error).message}`;
    }
  };
  const memory = await limit(home.memory, (version) => memorySettings(version, memoryMib));
  const cpu = await limit(home.cpu, (version) => cpuSettings(version, cpuCores));
  return { directories: [...directories], limits: { memory, cpu } };
}

/** Moves a process into the cgroup; its future children belong to it, too. @throws Error when the kernel refuses. */
export async function joinCgroup(directories: string[], pid: number): Promise<void> {
  for (const directory of directories) await writeFile(path.join(directory, "cgroup.procs"), String(pid));
}

/** Returns how many processes of this cgroup the kernel has killed because memory ran out. */
export async function countOutOfMemoryKills(directories: string[]): Promise<number> {
  const counts = directories.flatMap((directory) =>
    ["memory.oom_control", "memory.events"].map(async (file) => {
      const text = await readFile(path.join(directory, file), "utf8").catch(() => "");
      return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0);
    }),
  );
  return Math.max(0, ...(await Promise.all(counts)));
}

export async function listCgroupProcesses(directories: string[]): Promise<number[]> {
  const lists = directories.map((directory) => readFile(path.join(directory, "cgroup.procs"), "utf8").catch(() => ""));
  return (await Promise.all(lists)).flatMap((list) => list.split("\n").filter(Boolean).map(Number));
}

/** An emptied cgroup answers EBUSY for a moment. 50 tries x 20 ms is far more than was ever needed. */
const removeTriesMax = 50;

/** Removes an emptied cgroup. A missing one is no error. One that stays busy is removed at the next start. */
export async function removeCgroup(directories: string[]): Promise<void> {
  for (const directory of directories) {
    for (let tries = 0; tries < removeTriesMax; tries++) {
      const isBusy = await rmdir(directory).then(
        () => false,
        (error: NodeJS.ErrnoException) => error.code === "EBUSY",
      );
      if (!isBusy) break;
      await sleep(20);
    }
  }
}

/** Returns the cgroups with this prefix that an earlier process left: a list of directories for each name. */
export async function listCgroups(home: CgroupHome, prefix: string): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  const homes = new Set([home.memory, home.cpu].flatMap((where) => ("directory" in where ? [where.directory] : [])));
  for (const directory of homes) {
    for (const name of await readdir(directory).catch(() => [])) {
      if (name.startsWith(prefix)) found.set(name, [...(found.get(name) ?? []), path.join(directory, name)]);
    }
  }
  return found;
}

interface Setting {
  file: string;
  value: string;
  /** Swap accounting is often compiled out: the file does not exist then, and memory is limited without it. */
  isOptional?: boolean;
}

/** Limits memory and memory plus swap to the same value: a swapping replica would slow down others before it is killed. */
function memorySettings(version: 1 | 2, mib: number): Setting[] {
  const bytes = String(mib * 1024 * 1024);
  if (version === 2) {
    return [
      { file: "memory.max", value: bytes },
      { file: "memory.swap.max", value: "0", isOptional: true },
    ];
  }
  return [
    { file: "memory.limit_in_bytes", value: bytes },
    { file: "memory.memsw.limit_in_bytes", value: bytes, isOptional: true },
  ];
}

/** The kernel's default period. Shorter periods cost more context switches, longer ones show as pauses. */
const cpuPeriodUs = 100_000;

function cpuSettings(version: 1 | 2, cores: number): Setting[] {
  const quotaUs = Math.max(1_000, Math.round(cores * cpuPeriodUs)); // the kernel's minimum is 1 ms
  if (version === 2) return [{ file: "cpu.max", value: `${quotaUs} ${cpuPeriodUs}` }];
  return [
    { file: "cpu.cfs_period_us", value: String(cpuPeriodUs) },
    { file: "cpu.cfs_quota_us", value: String(quotaUs) },
  ];
}

async function applySetting(directory: string, { file, value, isOptional }: Setting): Promise<void> {
  const target = path.join(directory, file);
  if (isOptional === true && !(await exists(target))) return;
  await writeFile(target, value);
}

/** Parses both files of /proc and returns where controllers may be. Pure; see cgroups(7) and proc(5). */
export function candidates(mountinfo: string, cgroups: string, name: "memory" | "cpu"): Controller[] {
  const own = cgroups.split("\n").map((line) => /^\d+:([^:]*):(.*)$/.exec(line));
  const mounts = mountinfo.split("\n").map((line) => {
    const [left = "", right = ""] = line.split(" - ");
    const [, , , root = "/", point = ""] = left.split(" ");
    const [type = "", , options = ""] = right.split(" ");
    return { root, point, type, options: options.split(",") };
  });
  const first = mounts.find(({ type, options }) => type === "cgroup" && options.includes(name));
  const firstOwn = own.find((line) => line?.[1]?.split(",").includes(name))?.[2];
  const second = mounts.find(({ type }) => type === "cgroup2");
  const secondOwn = own.find((line) => line?.[1] === "")?.[2];
  const found: Controller[] = [];
  if (first !== undefined && firstOwn !== undefined) {
    found.push({ version: 1, directory: path.posix.join(first.point, below(first.root, firstOwn)) });
  }
  if (second !== undefined && secondOwn !== undefined) {
    const directory = path.posix.join(second.point, below(second.root, secondOwn));
    // A v2 cgroup that contains processes cannot delegate controllers to children, so ours are usually created beside it.
    found.push({ version: 2, directory });
    if (directory !== second.point) found.push({ version: 2, directory: path.posix.dirname(directory) });
  }
  return found;
}

/** In a container the mount shows only part of the hierarchy, while /proc/self/cgroup may contain the whole path. */
const below = (root: string, group: string) =>
  root !== "/" && (group === root || group.startsWith(`${root}/`)) ? group.slice(root.length) : group;

async function isUsable({ version, directory }: Controller, name: "memory" | "cpu", probeName: string) {
  const probe = path.join(directory, probeName);
  try {
    if (version === 2) await writeFile(path.join(directory, "cgroup.subtree_control"), `+${name}`).catch(() => {});
    await mkdir(probe, { recursive: true });
    const settings = name === "memory" ? memorySettings(version, 64) : cpuSettings(version, 1);
    for (const setting of settings) await applySetting(probe, setting);
    return true;
  } catch {
    return false;
  } finally {
    await rmdir(probe).catch(() => {});
  }
}

const exists = (file: string) =>
  stat(file).then(
    () => true,
    () => false,
  );
