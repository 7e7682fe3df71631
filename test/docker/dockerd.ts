import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Engine } from "../../src/compute/docker/engine/engine.ts";
import { eventually } from "../support/eventually.ts";
import { importNodeImage } from "./base-image.ts";

export interface Dockerd {
  /** Process id, which names its namespaces. */
  pid: number;
  /** Same format as `DOCKER_HOST`. */
  host: string;
  /** Stops it, with its containers unless it should keep them, and starts it again on the same data. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Why no engine can be started here; null: one can. */
export function missingForDockerd(): string | null {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "root on Linux, to start an engine of its own";
  if (findDockerd() === undefined) return "dockerd (Debian: apt-get install docker.io)";
  // Two engines share the packet filter rules of the kernel, and the second one starts by deleting them.
  return existsSync("/var/run/docker.sock")
    ? "an engine of its own, for one runs here already: name it with PIERHEAD_TEST_DOCKER_HOST=unix:///var/run/docker.sock"
    : null;
}

const findDockerd = () => ["/usr/sbin/dockerd", "/usr/bin/dockerd", "/usr/local/bin/dockerd"].find(existsSync);

/** A bridge without rules, which does not conflict with that of another engine. */
function addBridge(): string {
  const name = `ph${process.pid}`;
  const steps = [
    ["link", "add", "name", name, "type", "bridge"],
    ["addr", "add", `10.213.${process.pid % 256}.1/24`, "dev", name],
    ["link", "set", name, "up"],
  ];
  for (const step of steps) execFileSync("ip", step);
  return name;
}

/** Starts an engine beside another one without disturbing it. It has no connection to the internet. */
export async function startQuietDockerd(flags: string[], pool?: string): Promise<Dockerd> {
  const bridge = addBridge();
  const quiet = [`--bridge=${bridge}`, "--iptables=false", "--host-gateway-ip=127.0.0.1"];
  const dockerd = await startDockerd([...quiet, ...flags], pool);
  return {
    ...dockerd,
    async stop() {
      await dockerd.stop();
      execFileSync("ip", ["link", "del", bridge]);
    },
  };
}

/**
 * 256 networks for each engine, so that leftover bridges of a killed run overlap with none. The default of an engine is
 * about 30 for the whole machine.
 */
const addressPool = () => `base=10.${64 + (process.pid % 64)}.0.0/16,size=24`;

/**
 * Starts an engine on what looks to it like a machine of its own: a network with nothing but a loopback device, which has the given
 * name, too, an empty `/run`, and the given directory as `/etc/docker`. Every port is free there, and no other engine disturbs it.
 */
export async function startDockerdApart(settings: string, name: string): Promise<Dockerd> {
  mkdirSync("/etc/docker", { recursive: true });
  writeFileSync(path.join(settings, "hosts"), `127.0.0.1 localhost ${name}\n`);
  const machine = [
    "ip link set lo up",
    "mount -t tmpfs tmpfs /run",
    'mount --bind "$0" /etc/docker',
    "mount --bind /etc/docker/hosts /etc/hosts",
    'exec "$@"',
  ].join(" && ");
  const around = ["unshare", "--net", "--mount", "--", "sh", "-c", machine, settings];
  return startDockerd(["--host", "unix:///run/docker.sock"], addressPool(), around);
}

/** Starts an engine in a temporary directory. @param around program and arguments that start it */
export async function startDockerd(
  flags: string[] = [],
  pool = addressPool(),
  around: string[] = [],
): Promise<Dockerd> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-dockerd-"));
  const socket = path.join(directory, "docker.sock");
  const host = `unix://${socket}`;
  const directories = ["data-root", "exec-root", "pidfile"].flatMap((name) => [
    `--${name}`,
    path.join(directory, name),
  ]);
  const args = [...directories, "--host", host, ...flags];
  let daemon = await launch([...args, "--default-address-pool", pool], host, directory, around);
  return {
    host,
    pid: daemon.pid as number,
    async restart() {
      await end(daemon);
      // Without the pool: an engine with a pool that finds its previous default network removes the bridge `docker0`,
      // whatever its own bridge is named, and with it the network of another engine's builds. Existing networks keep their
      // addresses.
      daemon = await launch(args, host, directory, around);
    },
    async stop() {
      await removeNetworks(host);
      await end(daemon);
      // With live-restore, an engine leaves its data directory as a mount; one with containers on the host's network leaves
      // the namespace of that network.
      for (const left of ["data-root", "exec-root/netns/default"]) {
        spawnSync("umount", [path.join(directory, left)], { stdio: "ignore" });
      }
      await rm(directory, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Removes the bridges of its networks, which an engine leaves on the machine. */
async function removeNetworks(host: string): Promise<void> {
  const engine = await new Engine(host).open().catch(() => undefined);
  if (engine === undefined) return;
  for (const { Id } of await engine.call<{ Id: string }[]>("GET", "/containers/json", { query: { all: true } })) {
    await engine.callUnless([404, 409], "DELETE", `/containers/${Id}`, { query: { force: true } });
  }
  await engine.call("POST", "/networks/prune");
  engine.close();
}

async function launch(args: string[], host: string, directory: string, around: string[]): Promise<ChildProcess> {
  const log = path.join(directory, "dockerd.log");
  const output = openSync(log, "a");
  // When a test process is killed, the kernel stops its engine with this signal.
  const argv = [...around, "setpriv", "--pdeathsig", "TERM", "--", findDockerd() as string, ...args];
  const daemon = spawn(argv[0] as string, argv.slice(1), { stdio: ["ignore", output, output] });
  closeSync(output);
  const answers = () =>
    new Engine(host).open().then(
      () => true,
      () => false,
    );
  await eventually(answers, (ok) => ok || daemon.exitCode !== null, { timeoutMs: 60_000, what: "dockerd" });
  if (daemon.exitCode !== null) throw new Error(`dockerd ended: ${(await readFile(log, "utf8")).slice(-2_000)}`);
  return daemon;
}

async function end(daemon: ChildProcess): Promise<void> {
  if (daemon.exitCode !== null || daemon.signalCode !== null) return;
  const ended = new Promise<void>((resolve) => daemon.once("exit", () => resolve()));
  daemon.kill("SIGTERM");
  await ended;
}

/** Returns the engine for a test file: that of the suite, or one of its own. It has `nodeImage`. */
export async function engineForTests(): Promise<{ engine: Engine; end(): Promise<void> }> {
  const given = process.env["PIERHEAD_TEST_DOCKER_HOST"];
  const own = given === undefined ? await startDockerd() : undefined;
  const engine = await new Engine(own?.host ?? (given as string)).open();
  await importNodeImage(engine);
  return {
    engine,
    async end() {
      engine.close();
      await own?.stop();
    },
  };
}

/** `skip` option of a test or a suite. */
export const dockerSkipped =
  process.env["PIERHEAD_TEST_DOCKER_HOST"] === undefined ? (missingForDockerd() ?? false) : false;
