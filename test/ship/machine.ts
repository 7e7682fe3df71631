import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { promisify } from "node:util";
import { eventually } from "../support/eventually.ts";

const run = promisify(execFile);

/** Why no machine can be booted here; undefined: one can. */
export const machineSkipped =
  process.platform === "linux" && process.getuid?.() === 0 && existsSync("/lib/systemd/systemd")
    ? undefined
    : "root on Linux with systemd";

/**
 * Boots a second system on this kernel: systemd, in namespaces of its own, without a network except loopback. Its files are those
 * of this machine, and what it writes is in memory and lost. The given directory is at `/srv`.
 */
export async function bootMachine(shared: string, env: NodeJS.ProcessEnv) {
  const booted = spawn("sh", ["-c", enter, "sh", boot, shared], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [booted.stdout, booted.stderr]) stream.on("data", (chunk) => (said += String(chunk)));
  const pid = () => readFileSync(`/proc/${booted.pid}/task/${booted.pid}/children`, "utf8").trim();
  const inside = (program: string, ...args: string[]) =>
    run("nsenter", ["--target", pid(), "--all", "--root", "--wd", program, ...args], {
      ...{ env: { ...env, CDPATH: "" }, maxBuffer: 1e8, timeout: 300_000 },
    });
  const isUp = () =>
    inside("systemctl", "is-active", "ship.target").then(
      () => true,
      () => false,
    );
  await eventually(isUp, (up) => up || booted.exitCode !== null, { timeoutMs: 60_000, what: "systemd" });
  if (booted.exitCode !== null) throw new Error(`systemd ended: ${said}`);
  return {
    /** Runs a program in the machine, and returns its output. */
    inside,
    /** Runs a program that must fail, and returns its standard error. */
    async fails(program: string, ...args: string[]): Promise<string> {
      const failed = await inside(program, ...args).then(
        ({ stdout }) => new Error(`${program} ${args.join(" ")} succeeded: ${stdout}`),
        ({ stderr }: { stderr: string }) => stderr,
      );
      if (typeof failed !== "string") throw failed;
      return failed;
    },
    end: () => end(booted),
  };
}

async function end(booted: ChildProcess): Promise<void> {
  if (booted.exitCode !== null) return;
  const ended = new Promise((resolve) => booted.once("close", resolve));
  // `unshare` ignores other signals. The kernel then kills systemd, and with it all processes of its namespace.
  booted.kill("SIGKILL");
  await ended;
}

/** Enters a control group of its own first, so that systemd does not manage that of this machine. The kernel ends all with `unshare`. */
const enter = `
group=/sys/fs/cgroup/systemd
[ -d "$group" ] || group=/sys/fs/cgroup
mkdir -p "$group/pierhead-ship-$$" && echo $$ >"$group/pierhead-ship-$$/cgroup.procs" || true
exec unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child sh -c "$1" sh "$2"
`;

const boot = `set -e
mount --make-rprivate /
at=$1/machine
mkdir "$at"
mount -t tmpfs tmpfs "$at"
mkdir "$at/upper" "$at/work" "$at/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$at/upper,workdir=$at/work" "$at/root"
cd "$at/root"
mount -t proc proc proc
# Settings of the kernel hold for this machine as well.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do touch "dev/$name"; mount --bind "/dev/$name" "dev/$name"; done
mkdir dev/shm
chmod 1777 dev/shm tmp
ln -s /proc/self/fd dev/fd
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd || { umount sys/fs/cgroup; mount -t cgroup2 cgroup2 sys/fs/cgroup; }
mount --bind "$1" srv
ip link set lo up
rm -rf var/lib/pierhead etc/pierhead opt/pierhead
printf '[Unit]\\nWants=systemd-journald.service dbus.socket timers.target\\nAllowIsolate=yes\\n' >etc/systemd/system/ship.target
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . /lib/systemd/systemd --unit=ship.target
`;
