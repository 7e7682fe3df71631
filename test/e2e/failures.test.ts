import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import type { NextAction } from "../../src/contract/deployments/health.ts";
import type { FailureCode } from "../../src/contract/revisions/failure.ts";
import { runCli } from "../cli/run-cli.ts";
import { type AgentRepository, createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

/**
 * Failures of plain processes, each from the user's view: the health word, its cause, the next action, the events, and that
 * the way out works. Other failures have tests of their own:
 *
 * | failure | test |
 * |---|---|
 * | the build fails, then a fix; a newer build fails while the older revision serves | health.test.ts |
 * | the server exits again and again; exits as events; one alert for a loop | health.test.ts |
 * | bad variables, bad code, both: rollback | rollback.test.ts |
 * | image missing, memory limit, disk limit, exits, never healthy, variables, no room on Docker, with the way out | test/docker/failure-table.test.ts |
 * | image missing, memory limit, disk limit, exits, never ready, variables, no room, silence on Kubernetes, with the way out | test/kubeplane/failure-table.test.ts |
 * | the build fails on Docker (its status), in a cluster | test/docker/deploy-sources.test.ts, cluster-builds.test.ts |
 * | quotas, policies, service accounts on Kubernetes | test/kubeplane/refusals.test.ts, rollout.test.ts |
 * | bad commands, refusals of the engine on Docker | test/docker/failures.test.ts |
 * | a full disk of the server | test/faults/full-disk.test.ts |
 * | a silent listener on another host, with the way out | test/server/remote-listener.test.ts |
 *
 * Processes need no images. A machine without room for them is one without memory (OutOfMemory) or without disk (NoCapacity).
 */
interface Failure {
  name: string;
  /** Files that replace those of an agent that works. */
  broken: Record<string, string>;
  /** `crash_looping`: it works at first. */
  word: "failed" | "crash_looping";
  reason: string;
  code: FailureCode;
  message: RegExp;
  action: NextAction["kind"];
  advice: RegExp;
  /** The command that `why` names, with `pierhead` before it. */
  command?: RegExp;
  /** The commands of the way out, after a commit of `fix`. */
  fix?: Record<string, string>;
  commands: string[];
  stdin?: string;
}

const settings = (changes: object = {}) => JSON.stringify({ start: ["node", "server.js"], health: "/ok", ...changes });
const works = nodeAgent("works");
const server = works["server.js"] as string;

const signals = mkdtempSync(path.join(tmpdir(), "pierhead-failures-"));
const signalOf = (name: string) => path.join(signals, name);

const failures: Failure[] = [
  {
    name: "build",
    broken: { "pierhead.json": settings({ build: ["node", "-e", "console.error('no compiler'); process.exit(7)"] }) },
    word: "failed",
    reason: "BuildFailed",
    code: "build_failed",
    message: /exit code 7.*Last lines:\nno compiler/s,
    action: "read_build_log",
    advice: /Read the build log/,
    command: /logs build --build/,
    fix: { "good.json": settings() },
    commands: ["change build --config good.json --ref main"],
  },
  {
    name: "disk",
    broken: {
      "pierhead.json": settings({
        build: ["node", "-e", "console.error('ENOSPC: no space left on device, write'); process.exit(1)"],
      }),
    },
    word: "failed",
    reason: "BuildFailed",
    code: "disk_full",
    message: /disk of the build host is full/,
    action: "deploy",
    advice: /Make the build smaller or ask an operator to free disk space/,
    fix: { "pierhead.json": settings() },
    commands: ["deploy --latest --name disk"],
  },
  {
    name: "start",
    broken: { "server.js": 'throw new Error("config.yaml is broken")' },
    word: "failed",
    reason: "RolloutFailed",
    code: "exited",
    message: /exit code 1 before it was ready\. Error: config\.yaml is broken/,
    action: "read_log",
    advice: /Read the log/,
    command: /logs start --revision/,
    fix: { "server.js": server },
    commands: ["deploy --latest --name start"],
  },
  {
    name: "command",
    broken: { "pierhead.json": settings({ start: ["./no-such-program"] }) },
    word: "failed",
    reason: "RolloutFailed",
    code: "start_refused",
    message: /no-such-program/,
    action: "deploy",
    advice: /Correct the start command/,
    command: /deploy --latest --name command/,
    fix: { "pierhead.json": settings() },
    commands: ["deploy --latest --name command"],
  },
  {
    name: "variable",
    broken: { "server.js": `if (!process.env.MODEL_KEY) throw new Error("MODEL_KEY is not set");${server}` },
    word: "failed",
    reason: "RolloutFailed",
    code: "variables_missing",
    message: /MODEL_KEY is not set\. Set it with: pierhead env set variable MODEL_KEY/,
    action: "set_variable",
    advice: /Set the variable MODEL_KEY/,
    command: /env set variable MODEL_KEY/,
    commands: ["env set variable MODEL_KEY MODEL_NAME"],
    stdin: "secret\nlarge\n",
  },
  {
    name: "python",
    broken: { "pierhead.json": settings({ start: ["python9", "server.py"] }) },
    word: "failed",
    reason: "RolloutFailed",
    code: "start_refused",
    message: /Cannot start python9: no such program in PATH\. Set "python": true in pierhead\.json/,
    action: "deploy",
    advice: /Correct the start command/,
    fix: { "pierhead.json": settings() },
    commands: ["deploy --latest --name python"],
  },
  {
    name: "health",
    broken: { "pierhead.json": settings({ health: "/sick" }), "server.js": sick() },
    word: "failed",
    reason: "RolloutFailed",
    code: "never_healthy",
    message: /did not answer 200 on \/sick within 30 s and was killed\. At the end it answered 503 on \/sick\./,
    action: "read_log",
    advice: /check the health path/,
    command: /logs health --revision/,
    fix: { "pierhead.json": settings() },
    commands: ["deploy --latest --name health"],
  },
  {
    name: "later",
    broken: { "server.js": until("later", 'throw new Error("lost the model")') },
    word: "crash_looping",
    reason: "Exited",
    code: "exited",
    message: /ends soon after each start\. The agent server ended with exit code 1\b.* Error: lost the model/,
    action: "read_log",
    advice: /deploy a fix\./,
    command: /logs later$/,
    fix: { "server.js": server },
    commands: ["deploy --latest --name later"],
  },
  {
    name: "memory",
    broken: {
      "pierhead.json": settings({ start: ["node", "--max-old-space-size=32", "server.js"] }),
      "server.js": until("memory", "const held = []; for (;;) held.push(Array(1e6).fill({}));"),
    },
    word: "crash_looping",
    reason: "OutOfMemory",
    code: "out_of_memory",
    message: /memory limit of 1024 MiB/,
    action: "deploy",
    advice: /Reduce what the agent loads/,
    fix: { "server.js": server },
    commands: ["deploy --latest --name memory"],
  },
];

/** A server that answers, but never with 200 on its health path. */
function sick(): string {
  return server.replace(
    'if (url.pathname === "/ok")',
    'if (url.pathname === "/sick") { response.statusCode = 503; return response.end(); }\n  $&',
  );
}

/** A server that works until its signal exists, and then fails soon after each start. */
function until(name: string, act: string): string {
  const exists = `process.getBuiltinModule("node:fs").existsSync(${JSON.stringify(signalOf(name))})`;
  return `${server};setInterval(() => { if (${exists}) { ${act} } }, 200);`;
}

describe("failures of plain processes and their ways out", { concurrency: true }, () => {
  let pierhead: TestServer;
  before(async () => {
    pierhead = await startTestServer({ PIERHEAD_DEPLOY_TIMEOUT_MS: "30000", PIERHEAD_BUILD_CONCURRENCY: "4" });
  });
  after(async () => {
    await pierhead[Symbol.asyncDispose]();
    await rm(signals, { recursive: true });
  });

  for (const failure of failures) {
    test(`${failure.name}: ${failure.word} because of ${failure.reason}, and its way out serves`, () => check(failure));
  }

  async function check(failure: Failure): Promise<void> {
    const { client } = pierhead;
    await using repository = await createAgentRepository({ ...works, ...failure.broken });
    const ids = { deployment_id: await deploy(failure.name, repository) };
    const find = () => client.getDeployment(ids);
    const reaches = (word: string) =>
      eventually(find, (one) => one.health.status === word, { what: word, timeoutMs: 120_000 });
    if (failure.word === "crash_looping") {
      await reaches("live");
      await writeFile(signalOf(failure.name), "");
    }
    const { health } = await reaches(failure.word);
    assert.equal(health.reason, failure.reason);
    assert.match(health.message ?? "", failure.message);
    assert.equal(health.failure?.code, failure.code);
    if (failure.word === "failed") assert.deepEqual(await codeOfNewest(ids), failure.code);
    assert.equal(health.next_action?.kind, failure.action);
    assert.match(health.next_action?.text ?? "", failure.advice);
    const checked = await cli(`status ${failure.name} --check`);
    assert.deepEqual([checked.code, /is (failed|crash-looping)\./.test(checked.stderr)], [1, true]);
    const why = await cli(`why ${failure.name}`);
    assert.match(why.stdout, failure.advice);
    if (failure.command !== undefined)
      assert.match(why.stdout, new RegExp(`^  pierhead ${failure.command.source}`, "m"));
    assert.doesNotMatch(why.stdout, /Last lines:|DEPLOYMENT |roll ?back/);
    const { health: shown } = JSON.parse((await cli(`why ${failure.name} --json`)).stdout) as Pick<
      Deployment,
      "health"
    >;
    assert.deepEqual([shown.failure, shown.can_roll_back], [health.failure, false]);
    for (const page of [await client.listDeploymentEvents(ids), await client.listRevisions(ids)])
      assert.doesNotMatch(JSON.stringify(page), /DEPLOYMENT /);

    if (failure.fix !== undefined) await repository.commit(failure.fix);
    for (const command of failure.commands) {
      const done = await cli(command, failure.stdin);
      assert.equal(done.code, 0, done.stderr);
    }
    const { url } = await reaches("live");
    assert.equal((await fetch(`${url}/version`)).status, 200);
    assert.equal((await cli(`status ${failure.name} --check`)).code, 0);
    const { events } = await client.listDeploymentEvents({ ...ids, types: ["deployment.health"], limit: 1_000 });
    const words = events.map(({ data }) => data["to"]);
    assert.equal(words.filter((word) => word === failure.word).length, 1, words.join(" "));
    assert.equal(words.at(-1), "live");
  }

  const codeOfNewest = async (ids: { deployment_id: string }) =>
    (await pierhead.client.listRevisions({ ...ids, limit: 1 })).resources[0]?.failure?.code;

  const cli = (line: string, stdin?: string) =>
    runCli([...line.split(" "), "--data-dir", pierhead.dataDir], stdin === undefined ? {} : { stdin });

  async function deploy(name: string, { url }: AgentRepository): Promise<string> {
    const { id } = await pierhead.client.createDeployment({
      body: {
        name,
        source: "github",
        source_config: { repo_url: url, deployment_type: "dev", build_on_push: false },
        source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      },
    });
    return id;
  }
});
