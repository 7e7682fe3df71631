import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../src/client/client.ts";
import type { Revision } from "../src/contract/revisions/revision.ts";
import { isFinal } from "../src/domain/revision-status.ts";
import { type AgentRepository, createAgentRepository, nodeAgent } from "../test/support/agent-repository.ts";
import { freePort } from "../test/support/free-port.ts";
import { toBeEnded } from "./endings.ts";
import type { BenchRun, DatabaseKind } from "./installation.ts";
import { type BenchLine, benchLine, median, percentile } from "./line.ts";

/** The p99 of so few samples is the worst one: one bad deploy in twenty misses the goal. */
const samples = { small: 4, full: 20 };
const warmUps = 1;

const pollMs = 10;

/** Pause before each sample, so that no sample pays for the drain of the previous one. */
const restMs = 250;
const settleTimeoutMs = 60_000;

/** Measures what Pierhead adds to the start of an agent server whose artifact exists (G5, G6) and to its failure (G11). */
export async function deployBench(run: BenchRun): Promise<BenchLine[]> {
  const lines: BenchLine[] = [];
  await using repository = await createAgentRepository(nodeAgent("one"));
  for (const kind of run.kinds) lines.push(...(await deployLines(run, kind, repository)));
  return lines;
}

/** Milliseconds of each sample. */
interface Samples {
  bareStart: number[];
  create: number[];
  redeploy: number[];
  rollback: number[];
  bareVerdict: number[];
  verdict: number[];
}

async function deployLines(run: BenchRun, kind: DatabaseKind, repository: AgentRepository): Promise<BenchLine[]> {
  await using installation = await run.install(kind);
  const exits = await mkdtemp(path.join(tmpdir(), "pierhead-exits-"));
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "process" });
  const api = createClient({ baseUrl: server.url, apiKey: installation.adminKey });
  try {
    const stage = await setStage(api, repository, exits);
    const taken: Samples = { bareStart: [], create: [], redeploy: [], rollback: [], bareVerdict: [], verdict: [] };
    for (let round = -warmUps; round < samples[run.size]; round += 1) await takeSamples(stage, taken, round >= 0);
    return linesOf(taken, `on ${kind}`);
  } finally {
    for await (const { id } of api.all("listDeployments")) await api.deleteDeployment({ deployment_id: id });
    for await (const { id } of api.all("listDeployments")) await api.waitForDeletion({ deployment_id: id });
    await server.stop();
    await rm(exits, { recursive: true, force: true });
  }
}

interface Stage {
  api: Client;
  repository: AgentRepository;
  commit: string;
  /** Two deployed revisions of one deployment, of different artifacts. */
  deploymentId: string;
  revisionIds: [string, string];
  /** A revision whose server writes the time to a file in this directory and exits. */
  broken: { deploymentId: string; revisionId: string };
  exits: string;
}

/** Builds everything once, so that the measured deploys start from existing artifacts. */
async function setStage(api: Client, repository: AgentRepository, exits: string): Promise<Stage> {
  const first = await repository.commit(nodeAgent("one"));
  const second = await repository.commit(nodeAgent("two"));
  const third = await repository.commit({ "server.js": exitingServer(exits) });
  const commit = await repository.commit(nodeAgent("one"));
  const { id: deploymentId, latest_revision_id: oldest } = await create(api, repository, first);
  await settled(api, deploymentId, oldest as string, "DEPLOYED");
  const patched = await api.patchDeployment({
    deployment_id: deploymentId,
    body: { source_revision_config: { repo_ref: second } },
  });
  await settled(api, deploymentId, patched.latest_revision_id as string, "DEPLOYED");
  const dying = await create(api, repository, third);
  await settled(api, dying.id, dying.latest_revision_id as string, "DEPLOY_FAILED");
  const other = await create(api, repository, commit);
  await settled(api, other.id, other.latest_revision_id as string, "DEPLOYED");
  return {
    api,
    repository,
    commit,
    deploymentId,
    revisionIds: [patched.latest_revision_id as string, oldest as string],
    broken: { deploymentId: dying.id, revisionId: dying.latest_revision_id as string },
    exits,
  };
}

const exitingServer = (directory: string) => `
const fs = require("node:fs");
fs.writeFileSync(${JSON.stringify(directory)} + "/" + process.pid, String(Date.now()));
process.exit(9);
`;

/** Runs one of each in turn, so that a disturbance of the machine hits all of them. */
async function takeSamples(stage: Stage, taken: Samples, isKept: boolean): Promise<void> {
  const { api, repository, commit, deploymentId, revisionIds, broken } = stage;
  const kept: Partial<Record<keyof Samples, number>> = {};
  kept.bareStart = await bareStartMs(repository.directory);
  kept.create = await timed(
    async () => {
      const made = await create(api, repository, commit);
      await settled(api, made.id, made.latest_revision_id as string, "DEPLOYED");
      return made.id;
    },
    (id) => remove(api, id),
  );
  kept.redeploy = await timed(() => redeploy(api, deploymentId, revisionIds[0], "DEPLOYED"));
  revisionIds.reverse();
  kept.rollback = await timed(() => redeploy(api, deploymentId, revisionIds[0], "DEPLOYED"));
  kept.bareVerdict = await bareVerdictMs(stage.exits);
  await redeploy(api, broken.deploymentId, broken.revisionId, "DEPLOY_FAILED");
  kept.verdict = Date.now() - (await takeExitTime(stage.exits));
  if (isKept) for (const [name, ms] of Object.entries(kept)) taken[name as keyof Samples].push(ms);
}

function linesOf(taken: Samples, on: string): BenchLine[] {
  const lines: BenchLine[] = [];
  const floor = median(taken.bareStart);
  const added = { goal: "G5", floor, unit: "ms" };
  for (const [name, ms] of [
    [`POST to DEPLOYED of a commit that was built before, ${on}`, taken.create],
    [`redeploy to DEPLOYED, ${on}`, taken.redeploy],
  ] as const) {
    lines.push(
      benchLine({ ...added, name: `${name}: median`, ours: median(ms), target: { addedMax: 250 } }),
      benchLine({ ...added, name: `${name}: p99`, ours: percentile(ms, 99), target: { addedMax: 1_000 } }),
    );
  }
  lines.push(
    benchLine({
      goal: "G6",
      name: `rollback to the revision before against a redeploy of the same one, ${on}`,
      floor: median(taken.redeploy),
      ours: median(taken.rollback),
      unit: "ms",
      target: { ratioMax: 1.1 },
    }),
    benchLine({
      goal: "G11",
      name: `exit of a server to DEPLOY_FAILED against its parent's notice, ${on}: p99`,
      floor: percentile(taken.bareVerdict, 99),
      ours: percentile(taken.verdict, 99),
      unit: "ms",
      target: { oursMax: 1_000 },
    }),
  );
  return lines;
}

export async function timed<T>(act: () => Promise<T>, after?: (result: T) => Promise<void>): Promise<number> {
  await sleep(restMs);
  const start = performance.now();
  const result = await act();
  const tookMs = performance.now() - start;
  await after?.(result);
  return tookMs;
}

const create = (api: Client, repository: AgentRepository, commit: string) =>
  api.createDeployment({
    body: {
      name: `bench-${randomUUID()}`,
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "prod", build_on_push: false },
      source_revision_config: { repo_ref: commit, langgraph_config_path: "pierhead.json" },
      secrets: [{ name: "TOKEN", value: "s3cret" }],
    },
  });

async function redeploy(api: Client, deploymentId: string, revisionId: string, end: Revision["status"]) {
  const { latest_revision_id: made } = await api.redeployRevision({
    deployment_id: deploymentId,
    revision_id: revisionId,
  });
  await settled(api, deploymentId, made as string, end);
}

export async function remove(api: Client, deploymentId: string): Promise<void> {
  await api.deleteDeployment({ deployment_id: deploymentId });
  await api.waitForDeletion({ deployment_id: deploymentId });
}

/** Polls faster than any client, so that the bench measures the server and not the poll interval. */
export async function settled(
  api: Client,
  deploymentId: string,
  revisionId: string,
  wanted: Revision["status"],
  timeoutMs = settleTimeoutMs,
) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const { status, status_message: message } = await api.getRevision({
      deployment_id: deploymentId,
      revision_id: revisionId,
    });
    if (status === wanted) return;
    if (isFinal(status) || Date.now() > end) throw new Error(`revision is ${status}, not ${wanted}: ${message}`);
    await sleep(pollMs);
  }
}

/** Runs the agent's command directly and waits for its first 200. */
async function bareStartMs(directory: string): Promise<number> {
  const port = await freePort();
  const start = performance.now();
  const child = spawn(process.execPath, ["server.js"], {
    cwd: directory,
    env: { ...process.env, PORT: `${port}` },
    stdio: "ignore",
  });
  const ended = once(child, "exit");
  const end = toBeEnded(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const answers = () =>
    fetch(`http://127.0.0.1:${port}/ok`).then(
      ({ status }) => status === 200,
      () => false,
    );
  while (!(await answers())) {
    if (child.exitCode !== null) throw new Error(`the agent ended with exit code ${child.exitCode}`);
    await sleep(2);
  }
  const tookMs = performance.now() - start;
  await end();
  return tookMs;
}

async function bareVerdictMs(exits: string): Promise<number> {
  const child = spawn(process.execPath, ["-e", exitingServer(exits)], { stdio: "ignore" });
  await once(child, "exit");
  return Date.now() - (await takeExitTime(exits));
}

/** Returns when the first server since the last call ended. */
async function takeExitTime(exits: string): Promise<number> {
  const times: number[] = [];
  for (const name of await readdir(exits)) {
    times.push(Number(await readFile(path.join(exits, name), "utf8")));
    await rm(path.join(exits, name));
  }
  return Math.min(...times);
}
