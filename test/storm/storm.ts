import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { faultPoints } from "../../src/store/fault-points.ts";
import { createAgentRepository } from "../agent-repository.ts";
import { canContain, enterContained, isContained, runContained } from "../contained.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { startGithub } from "../hosts/github-server.ts";
import { isOfPush, pushThrough } from "./push-scenario.ts";
import { type ReplicaStorm, stormReplicas } from "./replicas.ts";
import { liveThrough, type Survivor } from "./scenario.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";
import { stormVictims } from "./victims.ts";

/**
 * npm run storm [-- --runs N] [--points a,b] [--random N] [--lanes N]: kills the server with SIGKILL at every step it persists, in
 * the middle of a deployment's life, N times each, and then at random moments. After each life nothing may be lost, done
 * twice or left over. Several lives go on at a time, each on a server of its own: a life mostly waits.
 *
 * npm run storm -- --replicas N [--deployments N] [--agents N] [--freeze MS] [--skew-minutes N]
 * [--jump-minutes N]: replicas of a control plane on one PostgreSQL, with clocks that are so far ahead and behind; that of
 * PostgreSQL is set forward and back by so much all the time.
 *
 * npm run storm -- --victims N: an agent, a build, the listener, the server and PostgreSQL are killed N times each, in the
 * middle of a deploy.
 *
 * Ends with the line `N passed, N failed`.
 */
const { values: options } = parseArgs({
  options: {
    runs: { type: "string", default: "3" },
    points: { type: "string" },
    random: { type: "string", default: "5" },
    lanes: { type: "string", default: "3" },
    replicas: { type: "string" },
    victims: { type: "string" },
    deployments: { type: "string", default: "200" },
    agents: { type: "string", default: "4" },
    freeze: { type: "string", default: "2000" },
    "skew-minutes": { type: "string", default: "0" },
    "jump-minutes": { type: "string", default: "0" },
  },
});

/** Each start takes about a second: more deaths than this would only repeat starts. */
const randomDeathsMax = 6;

const shared = { PIERHEAD_CACHE_DIR: path.resolve("node_modules/.cache/pierhead"), PIERHEAD_DRAIN_TIMEOUT_MS: "5000" };
const counts = { passed: 0, failed: 0 };
interface Life {
  title: string;
  point: string | null;
  random: number | null;
}

const points = options.points?.split(",") ?? [...faultPoints];
const numbered = (count: string) => Array.from({ length: Number(count) }, (_, index) => index + 1);
const lives: Life[] = [
  ...points.flatMap((point) =>
    numbered(options.runs).map((run) => ({ title: `killed at "${point}", run ${run}`, point, random: null })),
  ),
  ...numbered(options.random).map((run) => ({ title: `killed at random, run ${run}`, point: null, random: run })),
];

if (options.replicas === undefined && options.victims === undefined) {
  await Promise.all(numbered(options.lanes).map(lane));
  tell();
} else if (isContained() || !canContain()) {
  if (isContained()) enterContained("8g");
  const { replicas = "3", victims } = options;
  const storm =
    victims === undefined ? stormReplicas(numbersOf({ ...options, replicas })) : stormVictims(Number(victims));
  Object.assign(counts, await storm);
  tell();
} else {
  // Whoever ends this process, by whatever signal, ends all that it started.
  const { child } = runContained(import.meta.filename, process.argv.slice(2), { stdio: "inherit" });
  child.once("exit", (code) => {
    process.exitCode = code ?? 1;
  });
}

function tell(): void {
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  // Not left to the end of the program: after 10,000 deployments Node has gone round in its own clean-up for ever.
  process.exit(counts.failed > 0 || counts.passed === 0 ? 1 : 0);
}

function numbersOf(
  given: Record<"replicas" | "deployments" | "agents" | "freeze" | "skew-minutes" | "jump-minutes", string>,
): ReplicaStorm {
  return {
    replicas: Number(given.replicas),
    deployments: Number(given.deployments),
    agents: Number(given.agents),
    freezeMs: Number(given.freeze),
    skewMinutes: Number(given["skew-minutes"]),
    jumpMinutes: Number(given["jump-minutes"]),
  };
}

/** Lives one after the other in one data directory: what one leaves behind, the next would meet. */
async function lane(): Promise<void> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-storm-"));
  try {
    for (let life = lives.shift(); life !== undefined; life = lives.shift()) await attempt(life, dataDir);
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function attempt({ title, point, random }: Life, dataDir: string): Promise<void> {
  const began = performance.now();
  try {
    const deaths = await liveOnce(dataDir, point, random);
    counts.passed += 1;
    console.log(`ok   ${title} (${deaths} deaths, ${Math.round(performance.now() - began)} ms)`);
  } catch (error) {
    counts.failed += 1;
    console.log(`FAIL ${title}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  }
}

/** One life of one deployment on a server that dies once (at `point`) or several times (at random), and always comes back. */
async function liveOnce(dataDir: string, point: string | null, random: number | null): Promise<number> {
  let deaths = 0;
  let isOver = false;
  // One port for the whole life: clients that wait for the server to come back find it.
  await using repository = await createAgentRepository();
  await using github = await startGithub({ "acme/bot": repository.directory });
  const environment = { ...shared, ...github.environment, PORT: String(await freePort()) };
  const fault = point === null ? {} : { PIERHEAD_FAULT_POINT: point };

  /** A start may itself reach the point; the one after it may not. */
  async function begin(faults: Record<string, string>): Promise<ServerProcess> {
    const started = await startServerProcess(dataDir, { ...environment, ...faults });
    if (started === undefined) {
      deaths += 1;
      return begin({});
    }
    if (deaths < randomDeathsMax) killLater(started, { random, deaths });
    void started.ended.then(() => {
      if (isOver) return;
      deaths += 1;
      current = begin({});
      // Whoever asks next sees the failure.
      current.catch(() => {});
    });
    return started;
  }

  let current = begin(fault);
  let server = await current;
  const survivor: Survivor = {
    current: () => server,
    async revive() {
      await server.ended;
      server = await current;
    },
  };
  const name = `storm-${randomUUID().slice(0, 8)}`;
  try {
    if (isOfPush(point)) await pushThrough(survivor, { repository, github }, name);
    else await liveThrough(survivor, repository, name);
    if (point !== null) assert.ok(deaths > 0, `the server never reached "${point}"`);
    await nothingLeft(dataDir);
  } finally {
    isOver = true;
    await (await current).stop();
  }
  return deaths;
}

/**
 * Somewhere in the first seconds, where most of a life happens. Every third server lives longer: a build whose servers
 * died thrice is given up, as it should be.
 */
function killLater(server: ServerProcess, { random, deaths }: { random: number | null; deaths: number }): void {
  if (random === null) return;
  const earliestMs = deaths % 3 === 2 ? 30_000 : 200;
  const timer = setTimeout(() => server.child.kill("SIGKILL"), earliestMs + Math.random() * 3_000);
  void server.ended.then(() => clearTimeout(timer));
}

/** No process, directory or file without an owner. */
async function nothingLeft(dataDir: string): Promise<void> {
  for (const directory of ["replicas", "state", "builds", "artifacts", "uploads"]) {
    await eventually(
      () => readdir(path.join(dataDir, directory)).catch(() => []),
      (left) => left.length === 0,
      { what: `an empty ${directory} directory`, timeoutMs: 120_000 },
    );
  }
  await eventually(
    () => strayProcesses(dataDir),
    (left) => left.length === 0,
    { what: "no stray process", timeoutMs: 120_000 },
  );
}

/** Processes that carry our marks: replicas of this data directory, and builds. */
async function strayProcesses(dataDir: string): Promise<string[]> {
  const left: string[] = [];
  for (const pid of await readdir("/proc").catch(() => [])) {
    if (!/^\d+$/.test(pid)) continue;
    const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
    const isOurs = /^PIERHEAD_(BUILD_ID|REPLICA_ID)=/m.test(environment.replaceAll("\0", "\n"));
    if (isOurs && environment.includes(dataDir)) left.push(pid);
  }
  return left;
}
