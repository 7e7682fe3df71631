import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import { childEnvironment } from "../../base/child-environment.ts";
import { readDiskSpace, reserveOf } from "../../base/disk-reserve.ts";
import { ApiFailure, type Client } from "../../client/client.ts";
import type { Posture } from "../../contract/administration/posture.ts";
import type { Connection } from "../connection.ts";
import type { Environment } from "../context.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { cellText } from "../terminal/terminal.ts";
import { columns, size } from "../terminal/text.ts";
import { clientVersion } from "../version.ts";

interface Check {
  name: string;
  status: "ok" | "warning" | "failed";
  found: string;
  /** What to do; null if there is no problem. */
  fix: string | null;
}

type Finding = Omit<Check, "name">;

const ok = (found: string): Finding => ({ status: "ok", found, fix: null });
const warning = (found: string, fix: string): Finding => ({ status: "warning", found, fix });
const failed = (found: string, fix: string): Finding => ({ status: "failed", found, fix });

/** Names of the checks, in order. docs/guides/operations.md has a row for each. */
export const doctorChecks = [
  "Node",
  "git",
  "Python",
  "data directory",
  "disk",
  "server",
  "port",
  "version",
  "clock",
  "key",
  "posture",
  "compute of up",
] as const;

/** Checks this machine and the server, and prints a fix for each problem. */
export async function doctor(session: Session): Promise<void> {
  const connection = await session.connection();
  const client = await session.client();
  const server = await askServer(client, connection.url, session.signal);
  const posture = server.isThere ? await askPosture(client, session.signal) : "no server answers";
  const inspections: Record<(typeof doctorChecks)[number], () => Promise<Finding> | Finding> = {
    Node: checkNode,
    git: checkGit,
    Python: () => checkPython(session),
    "data directory": () => checkDataDir(connection),
    disk: () => checkDisk(connection),
    server: () => checkServer(connection, server),
    port: () => checkPort(connection, server),
    version: () => checkVersion(server),
    clock: () => checkClock(server),
    key: () => checkKey(connection, client, server),
    posture: () => checkPosture(posture),
    "compute of up": () => checkCompute(session),
  };
  const checks: Check[] = [];
  for (const name of doctorChecks) {
    const finding = await Promise.resolve()
      .then(inspections[name])
      .catch((error: Error) => failed(error.message, "Run with --verbose and report this."));
    checks.push({ name, ...finding });
  }
  const shown = typeof posture === "string" ? null : posture;
  session.answer({ checks, posture: shown }, () =>
    [
      session.terminal.asStarted(render(session, checks)),
      ...(shown === null ? [] : ["", `Posture: ${shown.kind}`, renderPosture(shown)]),
    ].join("\n"),
  );
  const bad = checks.filter(({ status }) => status === "failed").length;
  if (bad > 0) throw new CliFailure(`${bad} of ${checks.length} checks failed.`);
}

function render({ terminal }: Session, checks: Check[]): string {
  const { paintOut } = terminal;
  const marks = { ok: paintOut("green", "✓"), warning: paintOut("yellow", "!"), failed: paintOut("red", "✗") };
  const lines = columns(checks.map(({ name, found }) => [name, cellText(found)])).split("\n");
  return checks
    .flatMap(({ status, fix }, index) => [`${marks[status]} ${lines[index]}`, ...(fix === null ? [] : [`    ${fix}`])])
    .join("\n");
}

function renderPosture({ items }: Posture): string {
  return columns(
    items.map(({ name, is_on, because, setting }) => [
      `  ${cellText(name)}`,
      is_on ? "on" : "off",
      cellText(`${because} (${setting})`),
    ]),
  );
}

interface ServerAnswer {
  isThere: boolean;
  problem: string;
  version: string | null;
  isReady: boolean;
  waitingFor: string;
  /** This machine's clock minus the server's. */
  clockSkewMs: number | null;
}

const askTimeoutMs = 3_000;

async function askServer(client: Client, url: string, signal: AbortSignal): Promise<ServerAnswer> {
  const answer: ServerAnswer = {
    isThere: false,
    problem: "",
    version: null,
    isReady: false,
    waitingFor: "",
    clockSkewMs: null,
  };
  const call = { signal, deadlineMs: askTimeoutMs };
  try {
    const info = await client.getInfo({}, call);
    Object.assign(answer, { isThere: true, version: info.version });
    answer.clockSkewMs = await askClock(url, signal);
    await client.getReadiness({}, call);
    answer.isReady = true;
  } catch (error) {
    signal.throwIfAborted();
    if (answer.isThere) answer.waitingFor = (error as Error).message;
    else answer.problem = (error as Error).message;
  }
  return answer;
}

/** Reads the Date header, whose resolution of one second is sufficient. */
async function askClock(url: string, signal: AbortSignal): Promise<number | null> {
  const response = await fetch(`${url}/ok`, { signal: AbortSignal.any([signal, AbortSignal.timeout(askTimeoutMs)]) });
  await response.body?.cancel();
  const skewMs = Date.now() - Date.parse(response.headers.get("date") ?? "");
  return Number.isNaN(skewMs) ? null : skewMs;
}

function checkNode(): Finding {
  const { node } = process.versions;
  return ok(node); // main.ts refuses older ones before any command runs
}

/** Python is only needed for agents in Python that run as processes. With uv, a build installs its own Python version. */
async function checkPython({ context }: Session): Promise<Finding> {
  const compute = computeOf(context.env);
  if (compute !== "process") return ok(`not needed by ${compute} compute`);
  const run = (program: string, argv: string[]) => promisify(execFile)(program, argv, { env: childEnvironment() });
  const script = "import sys, venv, ensurepip; print('%d.%d.%d' % sys.version_info[:3])";
  const python = await run("python3", ["-c", script]).then(
    ({ stdout }) => stdout.trim(),
    () => null,
  );
  const [major = 0, minor = 0] = (python ?? "").split(".").map(Number);
  if (python !== null && major === 3 && minor >= 11) return ok(python);
  const uv = await run("uv", ["--version"]).then(
    ({ stdout }) => stdout.trim(),
    () => null,
  );
  if (uv !== null) return ok(uv);
  const found = python === null ? "no python3 with venv" : python;
  return warning(found, "Agents in Python need Python 3.11 or newer with venv (Debian: python3-venv), or uv.");
}

async function checkGit(): Promise<Finding> {
  try {
    const { stdout } = await promisify(execFile)("git", ["--version"], { env: childEnvironment() });
    const found = /\d+\.\d+(\.\d+)?/.exec(stdout)?.[0] ?? "unknown";
    const [major = 0, minor = 0] = found.split(".").map(Number);
    // `git rev-parse --end-of-options` works since 2.30.
    return major > 2 || (major === 2 && minor >= 30) ? ok(found) : warning(found, "Install git 2.30 or newer.");
  } catch {
    return warning("not found", "Install git, which is required for sources from repositories.");
  }
}

async function checkDataDir({ dataDir }: Connection): Promise<Finding> {
  const found = await stat(dataDir).catch(() => undefined);
  if (found === undefined) return ok(`${dataDir} (will be created by the first start)`);
  try {
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return failed(
      `${dataDir} is not writable`,
      `Make it writable for this user, or choose another directory: --data-dir DIR`,
    );
  }
  const credentials = await stat(path.join(dataDir, "credentials.json")).catch(() => undefined);
  if (credentials !== undefined && (credentials.mode & 0o077) !== 0 && process.platform !== "win32") {
    return failed(`${dataDir}/credentials.json can be read by others`, `chmod 600 ${dataDir}/credentials.json`);
  }
  return ok(dataDir);
}

/** One agent with its dependencies takes 150 MiB, and a build cache grows to a multiple of that. */
const diskFreeMinBytes = 2 * 1024 * 1024 * 1024;

/** Below this, neither the smallest agent nor a segment of the database log fits. */
const diskFullBytes = 64 * 1024 * 1024;

async function checkDisk({ dataDir }: Connection): Promise<Finding> {
  let directory = dataDir;
  while ((await stat(directory).catch(() => undefined)) === undefined) directory = path.dirname(directory);
  const space = await readDiskSpace(directory);
  const { freeBytes } = space;
  const free = `${size(freeBytes)} free`;
  if (freeBytes < diskFullBytes) {
    return failed(
      `${free} in ${dataDir}: it is full`,
      "Free some space. The server recovers automatically, without a restart.",
    );
  }
  if (freeBytes < reserveOf(space)) {
    return failed(
      `${free} in ${dataDir}: it is almost full`,
      "Free some space. Until then the server refuses uploads, and builds and logs of agents wait, so that its database can write.",
    );
  }
  return freeBytes >= diskFreeMinBytes ? ok(free) : warning(free, "Free some space: builds need about 2 GiB.");
}

function checkServer({ url, urlFrom }: Connection, server: ServerAnswer): Finding {
  const where = `${url} (from ${urlFrom})`;
  if (!server.isThere && urlFrom === "default")
    return warning("none has been started here yet", "Start one: pierhead up. Or name one: pierhead login URL");
  if (!server.isThere)
    return failed(
      `${where}: ${server.problem}`,
      "Start a server: pierhead up. Or set its address: --url, or PIERHEAD_URL",
    );
  if (!server.isReady)
    return failed(`${where} is not ready: ${server.waitingFor}`, "Wait, and check the server's log for the reason.");
  return ok(where);
}

/** Checks whether the port is free, if no server answers there. */
async function checkPort({ url }: Connection, server: ServerAnswer): Promise<Finding> {
  const { hostname, port, protocol } = new URL(url);
  const number = Number(port || (protocol === "https:" ? 443 : 80));
  if (server.isThere) return ok(`${number}, in use by this server`);
  if (!["127.0.0.1", "localhost", "[::1]"].includes(hostname)) return ok(`${number} on another machine`);
  const isFree = await new Promise<boolean>((resolve) => {
    const probe = createServer().once("error", () => resolve(false));
    probe.listen(number, hostname.replace(/[[\]]/g, ""), () => probe.close(() => resolve(true)));
  });
  return isFree
    ? ok(`${number} is free`)
    : failed(`${number} is in use by another program`, `Choose another port: pierhead up --port ${number + 1}`);
}

function checkVersion({ version }: ServerAnswer): Finding {
  const own = clientVersion();
  if (version === null || version === own) return ok(own);
  return warning(`client ${own}, server ${version}`, "Update both to the same version.");
}

/** Signed URLs expire after minutes, so a larger difference causes errors. */
const clockSkewMaxMs = 60_000;

function checkClock({ clockSkewMs }: ServerAnswer): Finding {
  if (clockSkewMs === null) return ok(new Date().toISOString());
  const skew = `${(clockSkewMs / 1000).toFixed(0)} s apart from the server`;
  return Math.abs(clockSkewMs) <= clockSkewMaxMs
    ? ok(skew)
    : warning(skew, "Synchronize the clocks of both machines with NTP.");
}

async function checkKey(
  { apiKey, apiKeyFrom, urlFrom }: Connection,
  client: Client,
  server: ServerAnswer,
): Promise<Finding> {
  if (apiKey === undefined && urlFrom === "default" && !server.isThere)
    return ok("none yet: the first start of a server writes one");
  if (apiKey === undefined)
    return failed("none", "Set PIERHEAD_API_KEY, or use --api-key-file FILE or the server's --data-dir");
  if (!server.isThere) return warning(`from ${apiKeyFrom}, not tried`, "Start the server first.");
  try {
    await client.listDeployments({ limit: 1 }, { deadlineMs: askTimeoutMs });
    return ok(`from ${apiKeyFrom}`);
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    return failed(`from ${apiKeyFrom}: ${error.detail}`, "Use a key for this server and workspace.");
  }
}

/** Returns what the server allows, or why it is unknown: only an operator's key may read it. */
async function askPosture(client: Client, signal: AbortSignal): Promise<Posture | string> {
  try {
    return await client.getPosture({}, { signal, deadlineMs: askTimeoutMs });
  } catch (error) {
    signal.throwIfAborted();
    return (error as Error).message;
  }
}

/** Items that only programs of the same machine should be able to use. */
const localItems: readonly string[] = ["local sources", "private network", "anonymous metrics", "webhook answers"];

function checkPosture(posture: Posture | string): Finding {
  if (typeof posture === "string") return ok(`unknown: ${posture}`);
  const { kind, because, items } = posture;
  const found = `${kind}: ${because}`;
  const open = items.filter(({ name, is_on }) => is_on && localItems.includes(name));
  if (kind === "local" || open.length === 0) return ok(found);
  const names = open.map(({ name, setting }) => `${name} (${setting})`).join(", ");
  return warning(found, `Turned on although others reach this server: ${names}. Turn off those that no user needs.`);
}

const computeOf = (env: Environment) => env.PIERHEAD_COMPUTE || "process";

function checkCompute({ context, signal }: Session): Finding | Promise<Finding> {
  const compute = computeOf(context.env);
  if (compute === "docker") return checkDocker(context.env.DOCKER_HOST || "unix:///var/run/docker.sock", signal);
  if (compute !== "process") return ok(compute);
  if (process.platform === "win32")
    return failed("process", "The process compute requires Linux or macOS. On Windows use WSL.");
  return ok("process: agents run as this user, so deploy only code that you trust");
}

/** Checks that the container engine is reachable and can enforce resource limits. */
async function checkDocker(host: string, signal: AbortSignal): Promise<Finding> {
  const { Engine } = await import("../../compute/docker/engine/engine.ts");
  const engine = new Engine(host);
  try {
    await engine.open(signal);
    const info = await engine.call<{ ServerVersion: string; MemoryLimit: boolean; CpuCfsQuota: boolean }>(
      "GET",
      "/info",
    );
    const found = `docker ${info.ServerVersion} at ${host}`;
    if (info.MemoryLimit && info.CpuCfsQuota) return ok(found);
    const lacking = info.MemoryLimit ? "CPU" : "memory";
    return warning(
      `${found}, without ${lacking} limits`,
      `Enable the ${lacking} cgroup of the kernel. Agents are not limited without it.`,
    );
  } catch (error) {
    signal.throwIfAborted();
    const fix = "Start the engine, give this user access to its socket, or set another address: DOCKER_HOST";
    return failed(`docker at ${host}: ${(error as Error).message}`, fix);
  } finally {
    engine.close();
  }
}
