import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { openProcessCompute } from "../../src/compute/process/process-compute.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { startListenerProgram } from "../server/listener-program.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { startTlsDoor } from "../support/tls-proxy.ts";
import { type CollectedSpan, type Collector, startCollector } from "../support/trace-collector.ts";

const canary = `canary-${randomBytes(12).toString("hex")}`;

const hex = (bytes: number) => randomBytes(bytes).toString("hex");

/** The trace context that a traced caller sends. */
type Caller = ReturnType<typeof newCaller>;

function newCaller() {
  const caller = { traceId: hex(16), spanId: hex(8) };
  return { ...caller, traceparent: `00-${caller.traceId}-${caller.spanId}-01` };
}

const bodyOf = (name: string, repoUrl: string) => ({
  name,
  source: "github",
  source_config: { repo_url: repoUrl, deployment_type: "dev", build_on_push: false },
  source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
  secrets: [{ name: "TOKEN", value: canary }],
});

/** Creates a deployment, in the caller's trace if there is one, and waits until its revision has a final status. */
async function create({ url, apiKey, client }: TestServer, name: string, repoUrl: string, caller: Caller | null) {
  const answer = await fetch(`${url}/v2/deployments`, {
    method: "POST",
    headers: {
      "x-api-key": apiKey,
      "content-type": "application/json",
      ...(caller && { traceparent: caller.traceparent }),
    },
    body: JSON.stringify(bodyOf(name, repoUrl)),
  });
  assert.equal(answer.status, 201, await answer.clone().text());
  const { id, latest_revision_id: revisionId } = (await answer.json()) as { id: string; latest_revision_id: string };
  const revision = await client.waitForRevision({ deployment_id: id, revision_id: revisionId });
  return { id, revisionId, revision };
}

/** Returns the first span with this name and these attributes. */
function find(spans: CollectedSpan[], name: string, attributes: Record<string, unknown> = {}): CollectedSpan {
  const found = spans.find(
    (span) => span.name === name && Object.entries(attributes).every(([key, value]) => span.attributes[key] === value),
  );
  assert.ok(found, `${name} ${JSON.stringify(attributes)}`);
  return found;
}

const hasStep = (spans: CollectedSpan[], step: string) =>
  spans.some(({ name, attributes }) => name === "reconcile.step" && attributes["step"] === step);

/** Returns the spans whose parent is not among those that have arrived. */
function rootsOf(spans: CollectedSpan[]): CollectedSpan[] {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  return spans.filter(({ parentId }) => !ids.has(parentId));
}

/** Waits until `isThere` holds and every span except the request has its parent in the trace. Returns the spans. */
async function traceOf(caller: Caller, isThere: (spans: CollectedSpan[]) => boolean): Promise<CollectedSpan[]> {
  const spans = await collector.trace(caller.traceId, (all) => isThere(all) && rootsOf(all).length === 1);
  assert.deepEqual(
    rootsOf(spans).map(({ name, parentId }) => [name, parentId]),
    [["api.request", caller.spanId]],
  );
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  for (const span of spans) {
    const parent = byId.get(span.parentId);
    if (parent) assert.ok(parent.beganAtMs <= span.beganAtMs + 1, `${parent.name} must begin before ${span.name}`);
  }
  return spans;
}

const isFinished = (spans: CollectedSpan[]) =>
  hasStep(spans, "finishRollout") &&
  spans.some(({ name }) => name === "listener.rollout") &&
  spans
    .filter(({ name }) => name === "listener.report")
    .every(({ spanId }) => spans.some((one) => one.parentId === spanId));

const parentOf = (spans: CollectedSpan[], { parentId }: CollectedSpan) =>
  spans.find(({ spanId }) => spanId === parentId)?.name;

/** Asserts the spans of a rollout and their parents, which are the same wherever the listener runs. */
function assertRollout(spans: CollectedSpan[], listener: string): void {
  const rollout = find(spans, "listener.rollout", { outcome: "ready" });
  assert.equal(rollout.service, listener);
  assert.equal(parentOf(spans, rollout), "reconcile.step");
  assert.equal(rollout.parentId, find(spans, "reconcile.step", { step: "rollOut" }).spanId);
  assert.equal(parentOf(spans, find(spans, "listener.start")), "listener.rollout");
  const report = find(spans, "listener.report", { phase: "ready" });
  assert.equal(report.parentId, rollout.spanId);
  const reported = find(
    spans.filter(({ parentId }) => parentId === report.spanId),
    "api.request",
    { operation: "reportStatus" },
  );
  assert.equal(reported.service, "pierhead");
  assert.equal(parentOf(spans, find(spans, "api.request", { operation: "getSecretValues" })), "listener.start");
}

const tracesTo = (collector: Pick<Collector, "url">) => ({
  PIERHEAD_TRACES_URL: collector.url,
  PIERHEAD_TRACES_HEADERS: "x-key=collector key, x-team = platform",
});

/** Returns a logger and the lines that it writes. */
function noted() {
  const lines: string[] = [];
  return { lines, logger: createLogger("info", { write: (line) => void lines.push(line) }) };
}

const { lines, logger } = noted();
let collector: Collector;
let pierhead: TestServer;

before(async () => {
  collector = await startCollector();
  pierhead = await startTestServer(tracesTo(collector), { logger });
});

after(async () => {
  await pierhead?.[Symbol.asyncDispose]();
  await collector?.[Symbol.asyncDispose]();
});

test("records a create, from request to report, as one trace under the caller's span and without secrets", async () => {
  await using repository = await createAgentRepository();
  const caller = newCaller();
  const made = await create(pierhead, "traced", repository.url, caller);
  assert.equal(made.revision.status, "DEPLOYED", made.revision.status_message ?? "");

  const spans = await traceOf(caller, isFinished);
  const request = find(spans, "api.request", { operation: "createDeployment" });
  assert.equal(request.attributes["http.response.status_code"], 201);
  const { tenant_id: workspaceId } = await pierhead.client.getDeployment({ deployment_id: made.id });
  assert.equal(request.attributes["workspace_id"], workspaceId);
  for (const step of ["provision", "resolve", "move", "build", "acceptBuild", "rollOut", "finishRollout"]) {
    const span = find(spans, "reconcile.step", { step });
    assert.equal(parentOf(spans, span), "reconcile.pass", step);
    assert.equal(span.attributes["deployment_id"], made.id);
    assert.equal(span.attributes["workspace_id"], workspaceId);
  }
  const build = find(spans, "build", { outcome: "succeeded", revision_id: made.revisionId });
  assert.equal(build.parentId, find(spans, "reconcile.step", { step: "build" }).spanId);
  const phases = spans.filter(({ name, parentId }) => name === "build.phase" && parentId === build.spanId);
  assert.deepEqual(
    phases.toSorted((a, b) => a.beganAtMs - b.beganAtMs || 0).map(({ attributes }) => attributes["phase"])[0],
    "Fetch",
  );
  assert.ok(phases.some(({ attributes }) => attributes["phase"] === "Install dependencies"));
  assertRollout(spans, "pierhead");
  assert.deepEqual(
    spans.filter(({ cause }) => cause !== null),
    [],
  );

  const traced = lines.map((line) => JSON.parse(line)).filter(({ trace_id: id }) => id === caller.traceId);
  const messages = new Set(traced.map(({ message }) => message));
  assert.ok(messages.has("request completed") && messages.has("build ended"), [...messages].join());
  assert.equal(collector.headers[0]?.["x-key"], "collector key");
  assert.equal(collector.headers[0]?.["x-team"], "platform");
  const sent = collector.bodies.join("\n");
  for (const secret of [canary, pierhead.apiKey, repository.url, "collector key"])
    assert.equal(sent.includes(secret), false, secret.slice(0, 10));
  assert.equal(lines.join("").includes("collector key"), false);
});

test("marks the spans of a failed build and of an agent that exits with the cause", async () => {
  await using failing = await createAgentRepository({
    ...nodeAgent("one"),
    "fail.js": `console.log("${canary}"); process.exit(3)`,
    "pierhead.json": JSON.stringify({ start: ["node", "server.js"], build: ["node", "fail.js"] }),
  });
  const caller = newCaller();
  const { id, revision } = await create(pierhead, "failing", failing.url, caller);
  assert.equal(revision.status, "BUILD_FAILED");
  const spans = await traceOf(
    caller,
    (all) => all.some(({ attributes }) => attributes["to"] === "BUILD_FAILED") && all.some((a) => a.name === "build"),
  );
  assert.equal(find(spans, "build").cause, "BuildFailed");
  assert.equal(find(spans, "build.phase", { phase: "Build" }).cause, "BuildFailed");
  assert.equal(find(spans, "reconcile.step", { to: "BUILD_FAILED" }).cause, "the build ended with an error");

  await failing.commit({ "pierhead.json": JSON.stringify({ start: ["node", "-e", "process.exit(7)"] }) });
  const second = newCaller();
  const answer = await fetch(`${pierhead.url}/v2/deployments/${id}`, {
    method: "PATCH",
    headers: { "x-api-key": pierhead.apiKey, "content-type": "application/json", traceparent: second.traceparent },
    body: JSON.stringify({ source_revision_config: { repo_ref: "main" } }),
  });
  assert.equal(answer.status, 200);
  const again = await traceOf(
    second,
    (all) =>
      all.some(({ attributes }) => attributes["to"] === "DEPLOY_FAILED") &&
      all.some(({ name }) => name === "listener.rollout"),
  );
  assert.equal(find(again, "listener.rollout", { outcome: "failed" }).cause, "Exited");
  assert.equal(find(again, "reconcile.step", { to: "DEPLOY_FAILED" }).cause, "the rollout failed");
  assert.equal(collector.bodies.join("\n").includes(canary), false, "spans must not contain build output");
});

test("starts a trace for a request without a valid one, and exports no spans for an unsampled caller", async () => {
  const ask = (route: string, headers: Record<string, string> = {}) =>
    fetch(`${pierhead.url}${route}`, { headers: { "x-api-key": pierhead.apiKey, ...headers } });
  const [unwanted, broken] = [hex(16), hex(16)];
  await ask("/ok");
  await ask("/v2/deployments", { traceparent: `00-${unwanted}-${hex(8)}-00` });
  await ask("/v2/deployments", { traceparent: `00-${broken}-0000000000000000-01` });
  await ask("/v2/deployments/00000000-0000-4000-8000-000000000000");
  const refusals = () => collector.spans.filter(({ attributes }) => attributes["http.response.status_code"] === 404);
  const [refused] = await eventually(refusals, ({ length }) => length > 0);
  assert.deepEqual([refused?.name, refused?.parentId], ["api.request", ""]);
  assert.equal(refused?.attributes["error_code"], "deploymentNotFound");
  assert.equal(refused?.cause, null, "a client error must not mark the span as failed");
  const of = (operation: string) => collector.spans.filter(({ attributes }) => attributes["operation"] === operation);
  assert.equal(of("listDeployments").length, 1, "only the sampled request must be exported");
  assert.equal(
    collector.spans.some(({ traceId }) => traceId === unwanted || traceId === broken),
    false,
  );
  assert.equal(of("getOk").length, 0);
});

test("a separate listener continues the trace over HTTPS", async () => {
  await using repository = await createAgentRepository();
  const key = `ph_${randomBytes(6).toString("hex")}_${randomBytes(32).toString("base64url")}`;
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-listener-"));
  const traced = tracesTo(collector);
  await using server = await startTestServer({ ...traced, PIERHEAD_COMPUTE: "none", PIERHEAD_LISTENER_KEY: key });
  await using door = await startTlsDoor(server.url);
  const trusted = path.join(directory, "trusted.pem");
  await writeFile(trusted, door.certificate);
  const listener = await startListenerProgram({
    ...traced,
    PIERHEAD_URL: door.url,
    PIERHEAD_LISTENER_KEY: key,
    PIERHEAD_COMPUTE: "process",
    PIERHEAD_DATA_DIR: directory,
    NODE_EXTRA_CA_CERTS: trusted,
  });
  try {
    const caller = newCaller();
    const { revision } = await create(server, "remote", repository.url, caller);
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    const spans = await traceOf(caller, isFinished);
    assertRollout(spans, "pierhead-listener");
    for (const secret of [canary, key]) assert.equal(collector.bodies.join("\n").includes(secret), false);
  } finally {
    await listener.stop();
    const compute = await openProcessCompute({
      dataDir: directory,
      logger: createLogger("silent"),
      nodePath: process.execPath,
    });
    const signal = AbortSignal.timeout(20_000);
    for (const { replicaId } of await compute.observe(signal)) await compute.remove(replicaId, { graceMs: 0, signal });
    await compute.close();
    await rm(directory, { recursive: true, force: true });
  }
});

test("deploys without a reachable collector and logs the failure once per start", async () => {
  await using repository = await createAgentRepository();
  const { lines, logger } = noted();
  const environment = { PIERHEAD_TRACES_URL: "http://127.0.0.1:1", PIERHEAD_COMPUTE: "simulated" };
  await using pierhead = await startTestServer(environment, { logger });
  const { revision } = await create(pierhead, "untraced", repository.url, null);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  const said = () => lines.filter((line) => line.includes("collector rejected traces"));
  await eventually(said, ({ length }) => length > 0);
  await pierhead.client.listDeployments();
  await pierhead.restart();
  assert.equal((await pierhead.client.listDeployments()).resources.length, 1);
  assert.match(said()[0] ?? "", /ECONNREFUSED/);
  assert.ok(said().length <= 2, "at most one log line for each start of the server");
});
