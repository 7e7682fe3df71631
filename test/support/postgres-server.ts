import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { chmod, chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { eventually } from "./eventually.ts";

/** Printed once for all tests on PostgreSQL when it is not installed. */
export const postgresSkipped = "SKIPPED postgres: no PostgreSQL server is installed (initdb and postgres)";

export interface PostgresServer {
  /** Address of the maintenance database, over a unix socket. */
  url: string;
  /** Kills all processes at once, like a power failure, and starts the server again with the data on disk. */
  crash(): Promise<void>;
  /** Stops all processes for this long. */
  freeze(ms: number): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts a PostgreSQL server in a temporary directory; returns undefined if PostgreSQL is not installed. By default it does
 * not wait for the disk; with `durable` it does, like a server with real data.
 */
export async function startPostgresServer({
  durable = false,
  port,
  environment = {},
}: {
  durable?: boolean;
  /** Added to the environment of this process. */
  environment?: Record<string, string>;
  /** Also listens on this port of 127.0.0.1, with a password for every user. */
  port?: number;
} = {}): Promise<PostgresServer | undefined> {
  const binaries = findBinaries();
  if (binaries === undefined) return undefined;
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-pg-"));
  const user = unprivilegedUser();
  if (user !== undefined) await chown(directory, user.uid, user.gid);
  await chmod(directory, 0o700);
  const data = path.join(directory, "data");
  const initdb = spawnSync(
    path.join(binaries, "initdb"),
    ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
    { ...user, cwd: directory, encoding: "utf8" },
  );
  if (initdb.status !== 0) throw new Error(`initdb failed: ${initdb.stderr}${initdb.error?.message ?? ""}`);
  await writeFile(path.join(data, "pg_hba.conf"), "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n");
  const settings = [
    `unix_socket_directories=${directory}`,
    `fsync=${durable ? "on" : "off"}`,
    "max_connections=300",
    ...(port === undefined ? ["listen_addresses="] : ["listen_addresses=127.0.0.1", `port=${port}`]),
  ];
  const spawnAgain = () =>
    spawnServer(path.join(binaries, "postgres"), { directory, data, settings, user, environment });
  let server = spawnAgain();
  const socketPort = port === undefined ? "" : `:${port}`;
  const url = `postgresql://postgres@${encodeURIComponent(directory)}${socketPort}/postgres`;
  const killAtExit = () => server.kill("SIGQUIT");
  process.once("exit", killAtExit);
  const answers = () =>
    eventually(
      () => canConnect(url),
      (can) => can || server.exitCode !== null,
      { timeoutMs: 60_000, what: "PostgreSQL" },
    );
  await answers();
  return {
    url,
    async crash() {
      const ended = endOf(server);
      signalAll(server, "SIGKILL");
      await ended;
      // A postmaster that finds processes of the previous one does not start. They exit shortly after it is gone.
      server = spawnAgain();
      await eventually(
        () => {
          if (server.exitCode !== null) server = spawnAgain();
          return canConnect(url);
        },
        (can) => can,
        { timeoutMs: 60_000, what: "PostgreSQL again" },
      );
    },
    async freeze(ms) {
      signalAll(server, "SIGSTOP");
      await sleep(ms).finally(() => signalAll(server, "SIGCONT"));
    },
    async stop() {
      process.removeListener("exit", killAtExit);
      const ended = endOf(server);
      server.kill("SIGQUIT");
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

const endOf = (child: ChildProcess) => new Promise<void>((resolve) => child.once("exit", () => resolve()));

/** Signals the postmaster and each of its sessions and workers. */
function signalAll({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(/\s+/).filter(Boolean);
  for (const one of [pid as number, ...children.map(Number)]) {
    try {
      process.kill(one, signal);
    } catch {
      // The session has already ended.
    }
  }
}

function spawnServer(
  postgres: string,
  {
    directory,
    data,
    settings,
    user,
    environment,
  }: {
    directory: string;
    data: string;
    settings: string[];
    user: object | undefined;
    environment: Record<string, string>;
  },
): ChildProcess {
  const args = ["-D", data, ...settings.flatMap((setting) => ["-c", setting])];
  // A killed test process must take its server with it, so the kernel sends the signal. Only Linux supports this.
  const setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].find((file) => existsSync(file));
  const [program, programArgs] =
    setpriv === undefined ? [postgres, args] : [setpriv, ["--pdeathsig", "QUIT", "--", postgres, ...args]];
  return spawn(program, programArgs, {
    ...user,
    env: { ...process.env, ...environment },
    cwd: directory,
    stdio: "ignore",
  });
}

/** Returns the user of the PostgreSQL package, otherwise `nobody`, because PostgreSQL refuses to run as root. */
function unprivilegedUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const lines = readFileSync("/etc/passwd", "utf8").split("\n");
  const entry = ["postgres", "nobody"]
    .map((name) => lines.find((line) => line.startsWith(`${name}:`)))
    .find((line) => line);
  const [, , uid, gid] = (entry ?? "nobody:x:65534:65534").split(":");
  return { uid: Number(uid), gid: Number(gid) };
}

/** Returns the directory with initdb and postgres of the highest installed version, otherwise from the PATH. */
export function findBinaries(): string | undefined {
  const packaged = "/usr/lib/postgresql";
  const versions = existsSync(packaged) ? readdirSync(packaged).sort((a, b) => Number(b) - Number(a)) : [];
  const places = [
    ...versions.map((version) => path.join(packaged, version, "bin")),
    ...(process.env["PATH"] ?? "").split(path.delimiter),
  ];
  return places.find((place) => existsSync(path.join(place, "initdb")) && existsSync(path.join(place, "postgres")));
}

async function canConnect(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}
