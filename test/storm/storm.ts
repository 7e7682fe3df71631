import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { faultPoints } from "../../src/store/engine/fault-points.ts";
import { startGithub } from "../hosts/github-server.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { canContain, enterContained, isContained, runContained } from "../support/contained-process.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { isOfPush, pushThrough } from "./push-scenario.ts";
import { RandomDeaths } from "./random-deaths.ts";
import { type ReplicaStorm, stormReplicas } from "./replicas.ts";
import { liveThrough, type Survivor } from "./scenario.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";
import { stormVictims } from "./victims.ts";

/**
 * npm run storm [-- --runs N] [--points a,b] [--random N] [--lanes N]: kills the server with SIGKILL at every step it persists, in
 * the middle of a deployment's life, N times each, and then at random moments. After each scenario nothing may be lost, done
 * twice or left over. Several scenarios run at a time, each on its own server, because a scenario mostly waits. In one scenario the
 * server dies at three steps that are far apart.
 *
 * npm run storm -- --replicas N [--deployments N] [--agents N] [--freeze MS] [--skew-minutes N]
 * [--jump-minutes N]: replicas of a control plane on one PostgreSQL, with clocks that are ahead and behind by `skew-minutes`. The
 * clock of PostgreSQL jumps forward and back by `jump-minutes` during the run.
 *
 * npm run storm -- --victims N: kills an agent, a build, the listener, the server and PostgreSQL N times each, in the
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

const shared = { PIERHEAD_CACHE_DIR: path.resolve("node_modules/.cache/pierhead"), PIERHEAD_DRAIN_TIMEOUT_MS: "5000" };
const counts = { passed: 0, failed: 0 };
interface Life {
  run: number;
  /** Steps at which the server dies, one after the other; null for random moments. */
  points: string[] | null;
}

/** Steps that `scenario.ts` reaches later than most deployments do. */
const lateInLife = [
  "revisions skipped",
  "revision interrupted",
  "build cancelled",
  "upload started",
  "upload finished",
  "revision awaiting deploy",
];

const numbered = (count: string) => Array.from({ length: Number(count) }, (_, index) => index + 1);
const lives: Life[] = [
  ...numbered(options.runs).flatMap((run) =>
    groupsOf(options.points?.split(",") ?? [...faultPoints]).map((points) => ({ run, points })),
  ),
  ...numbered(options.random).map((run) => ({ run, points: null })),
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
  // A signal that ends this process also ends everything it started.
  const { child } = runContained(import.meta.filename, process.argv.slice(2), { stdio: "inherit" });
  child.once("exit", (code) => {
    process.exitCode = code ?? 1;
  });
}

function tell(): void {
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  // Exit explicitly: after 10,000 deployments Node has spun in its own clean-up without end.
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

/**
 * Runs scenarios one after the other in one data directory, so that one finds what another leaves behind. After a failure the
 * next one starts with an empty directory, and the old one is kept for inspection.
 */
async function lane(): Promise<void> {
  const begin = () => mkdtemp(path.join(tmpdir(), "pierhead-storm-"));
  let dataDir = await begin();
  for (let life = lives.shift(); life !== undefined; life = lives.shift()) {
    if (!(await attempt(life, dataDir))) dataDir = await begin();
  }
  await rm(dataDir, { recursive: true, force: true });
}

/**
 * Groups the steps that one scenario dies at: in the order it reaches them and as far apart as possible, because a
 * build whose servers died three times is given up.
 */
function groupsOf(points: string[]): string[][] {
  const isEarly = (point: string) => !lateInLife.includes(point) && !isEnd(point);
  const ofLife = [
    ...points.filter((point) => isEarly(point) && !isOfPush([point])),
    ...lateInLife.filter((point) => points.includes(point)),
    ...points.filter(isEnd),
  ];
  const count = Math.ceil(ofLife.length / 3);
  const groups = Array.from({ length: count }, (_, at) => ofLife.filter((_, index) => index % count === at));
  return [...groups, points.filter((point) => isOfPush([point]))].filter(({ length }) => length > 0);
}

function isEnd(point: string): boolean {
  return /^(delete|deployment (finalized|row)|webhook)/.test(point);
}

/** @returns whether it passed. */
async function attempt({ run, points }: Life, dataDir: string): Promise<boolean> {
  const began = performance.now();
  const title = `killed at ${points === null ? "random" : points.map((point) => `"${point}"`).join(", ")}, run ${run}`;
  try {
    const deaths = await liveOnce(dataDir, points, points === null ? run % 4 === 0 : isOfPush(points));
    const missed = points?.slice(deaths) ?? [];
    // An earlier death may have changed the course of the scenario.
    if (missed.length > 0 && deaths > 0) lives.push(...missed.map((point) => ({ run, points: [point] })));
    else assert.deepEqual(missed, [], "the server never reached this step");
    assert.ok(deaths > 0, "the server never died");
    counts.passed += deaths;
    console.log(`ok   ${title} (${deaths} deaths, ${Math.round(performance.now() - began)} ms)`);
    return true;
  } catch (error) {
    counts.failed += 1;
    console.log(`FAIL ${title}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    console.log(`     left in ${dataDir}`);
    for (const pid of await strayProcesses(dataDir)) process.kill(Number(pid), "SIGKILL");
    return false;
  }
}

/**
 * Runs the life of one deployment on a server that dies at each of `points`, or several times at random, and always restarts.
 * @returns the number of deaths.
 */
async function liveOnce(dataDir: string, points: string[] | null, ofPush: boolean): Promise<number> {
  let deaths = 0;
  let isOver = false;
  const random = new RandomDeaths();
  // One port for the whole scenario, so that waiting clients find the restarted server.
  await using repository = await createAgentRepository();
  await using github = await startGithub({ "acme/bot": repository.directory });
  const environment = { ...shared, ...github.environment, PORT: String(await freePort()) };

  /** A start itself may reach the step. */
  async function begin(): Promise<ServerProcess> {
    const point = points?.[deaths];
    const fault = point === undefined ? {} : { PIERHEAD_FAULT_POINT: point };
    const started = await startServerProcess(dataDir, { ...environment, ...fault });
    if (started === undefined) {
      deaths += 1;
      return begin();
    }
    if (points === null) random.follow(started);
    void started.ended.then(({ signal }) => {
      if (isOver) return;
      deaths += 1;
      current =
        signal === "SIGKILL"
          ? begin()
          : Promise.reject(new Error(`the server ended unexpectedly:\n${started.logged()}`));
      // The next caller receives the failure.
      current.catch(() => {});
    });
    return started;
  }

  let current = begin();
  let server = await current;
  const survivor: Survivor = {
    current: () => server,
    settled: () => random.settled(),
    async revive() {
      await server.ended;
      server = await current;
    },
  };
  const name = `storm-${randomUUID().slice(0, 8)}`;
  try {
    if (ofPush) await pushThrough(survivor, { repository, github }, name);
    else await liveThrough(survivor, repository, name);
    await nothingLeft(dataDir);
  } finally {
    isOver = true;
    random.end();
    await (await current).stop();
  }
  return deaths;
}

/** Asserts that no process, directory or file is orphaned. */
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

/** Processes with our marks: replicas of this data directory, and builds. */
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
