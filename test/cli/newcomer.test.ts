import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createServer } from "node:net";
import { test } from "node:test";
import { promisify } from "node:util";
import { describeReturn } from "../../src/cli/deployments/rollback.ts";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import { deploymentExample, revisionExample, rollbackPreviewExample } from "../../src/contract/examples.ts";
import type { RollbackPreview } from "../../src/contract/revisions/run-again.ts";
import { startAnswering } from "../client/answering.ts";
import { createDirectory, runCli } from "./run-cli.ts";

const deployment = { ...deploymentExample, name: "support" };

/** Runs a command against a server that has one deployment and refuses each change of it. */
async function refused(argv: string[], detail: unknown, status = 400) {
  await using server = await startAnswering(({ method }) =>
    method === "GET" ? { status: 200, body: { resources: [deployment], offset: 1 } } : { status, body: { detail } },
  );
  const { stderr } = await runCli([...argv, "--url", server.url], { env: { PIERHEAD_API_KEY: "k" } });
  return stderr;
}

test("names options instead of fields of the API in a refusal", async () => {
  const input = "Input should be 'default', 'file', 'memory', 'postgres' or 'aegra'";
  const body = [{ type: "enum", loc: ["body", "source_config", "engine"], msg: input, input: "foo" }];
  const engine = await refused(["change", "support", "--engine", "foo"], body, 422);
  assert.match(engine, /--engine: Input should be 'default'/);
  const ref = await refused(
    ["change", "support", "--ref", "main"],
    "Source revision configuration error: 'source_revision_config.repo_ref' is not applicable for source 'internal_source'.",
  );
  assert.match(ref, /^ {2}--ref is not applicable to a directory\.$/m);
  const retry = await refused(
    ["retry", "support"],
    `The newest revision of deployment ID ${deployment.id} did not fail.`,
  );
  assert.match(retry, /The newest revision of this deployment did not fail\./);
  for (const said of [engine, ref, retry])
    assert.doesNotMatch(said, /source_\w*config|\/v2\/|[0-9a-f]{8}-[0-9a-f]{4}-/);
});

test("says the command that makes a deployment scale or sleep", async () => {
  const memory =
    "'support' can only run one replica: its server keeps threads. Change its engine to 'aegra', and scale it then.";
  assert.match(await refused(["scale", "support", "2"], memory), /pierhead change support --engine aegra/);
  const lacking =
    "'support' can only run one replica: its server keeps threads and runs in its memory. It has no database yet: set POSTGRES_URI_CUSTOM and REDIS_URI_CUSTOM first. Change its engine to 'aegra', and scale it then.";
  assert.match(
    await refused(["scale", "support", "2"], lacking),
    /pierhead env set support POSTGRES_URI_CUSTOM REDIS_URI_CUSTOM\n.*pierhead change support --engine aegra/,
  );
  const prod =
    "'support' is of type 'prod', which never sleeps. Scale it to 1-3. Or deploy the source under a new name with type 'dev_zero', which sleeps.";
  assert.match(
    await refused(["scale", "support", "0-3"], prod),
    /pierhead scale support 1-3\n.*pierhead deploy DIRECTORY --name NEW-NAME --type dev_zero/,
  );
});

test("shows that an engine with its state in one process has one replica", async () => {
  const revision = { ...revisionExample, engine: "memory", rollout: "handover" };
  const replica = {
    ...{ id: "r1", revision_id: revision.id, revision_number: 1, phase: "ready" },
    ...{ restarts: 0, started_at: "2026-01-01T00:00:00Z", limits: { memory: "", cpu: "" } },
  };
  const source_config = { ...deployment.source_config, listener_id: null };
  const active = { ...deployment, source_config, active_revision_id: revision.id };
  await using server = await startAnswering(({ url }) => {
    if (url.includes("/replicas"))
      return { status: 200, body: { replicas: [replica], last_exit: null, exits_in_a_row: 0, asleep: false } };
    return { status: 200, body: url.includes("/revisions/") ? revision : { resources: [active], offset: 1 } };
  });
  const { stdout, stderr } = await runCli(["ps", "support", "--url", server.url], { env: { PIERHEAD_API_KEY: "k" } });
  assert.match(stdout, /Scale: 1 replica, because the engine memory keeps the state in one process/, stderr);
});

test("doctor passes before the first start of a server, and says how to start one", async (context) => {
  await using data = await createDirectory();
  // The server of a developer may have the usual port.
  const isFree = await new Promise<boolean>((resolve) => {
    const probe = createServer().once("error", () => resolve(false));
    probe.listen(8124, "127.0.0.1", () => probe.close(() => resolve(true)));
  });
  const { stdout } = await runCli(["doctor", "--data-dir", `${data.directory}/none`]);
  if (!isFree) return context.diagnostic("another program listens on port 8124");
  assert.match(stdout, /! server +none has been started here yet\n +Start one: pierhead up/);
  assert.doesNotMatch(stdout, /✗ (?:server|port|key)/);
});

test("says that the server of the data directory runs already, and how to use it or to start another", async () => {
  const inUse = "the data directory is in use by process 7 (lock file /data/server.lock): stop it first";
  const startServer = () => Promise.reject(new Error(inUse));
  const { code, stderr } = await runCli(["up"], { startServer });
  assert.equal(code, 1);
  assert.match(
    stderr,
    /A server with this data directory runs already\.\n {2}the data directory is in use by process 7/,
  );
  assert.match(stderr, /Use it: {8}pierhead deploy DIR\n.*Start another: pierhead up --data-dir DIR --port PORT/);
});

test("says that a data directory has no server instead of asking another server for its key", async (context) => {
  await using data = await createDirectory();
  const other = createServer((socket) =>
    socket.end('HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n{"detail":"Invalid token"}'),
  );
  const isFree = await new Promise<boolean>((resolve) => {
    other.once("error", () => resolve(false)).listen(8124, "127.0.0.1", () => resolve(true));
  });
  if (!isFree) return context.diagnostic("another program listens on port 8124");
  const { code, stderr } = await runCli(["list", "--data-dir", data.directory]);
  other.close();
  assert.equal(code, 4);
  assert.match(stderr, /No server has been started with the data directory .*\n.*\n.*pierhead up --data-dir/);
});

test("names a way to a newer Node on a machine with an old one", async () => {
  const old = "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })";
  const argv = ["--import", `data:text/javascript,${encodeURIComponent(old)}`, "src/main.ts", "version"];
  const { code, stderr } = await promisify(execFile)(process.execPath, argv).then(
    () => ({ code: 0, stderr: "" }),
    (error: { code: number; stderr: string }) => error,
  );
  assert.equal(code, 1);
  assert.match(stderr, /needs Node 22\.19 or newer, this is 20\.20\.2: .*"npm install node@24" and use "npx pierhead"/);
});

test("says that a second rollback undoes the first", () => {
  const undone = {
    ...rollbackPreviewExample,
    from: { ...revisionExample, reason: "rollback", based_on: { id: "x", number: 6 } },
  };
  const said = describeReturn({ name: "support" }, undone as unknown as RollbackPreview).join("\n");
  assert.match(
    said,
    /itself a rollback to 6\. This undoes it and returns to \d+\.\n.*pierhead rollback support REVISION/,
  );
  const first = { ...undone, from: revisionExample } as unknown as RollbackPreview;
  assert.deepEqual(describeReturn({ name: "support" }, first), []);
});

test("says that a revision that failed needs no rollback, because another one serves", () => {
  const preview = { ...rollbackPreviewExample, from: { ...revisionExample, number: 4 } } as unknown as RollbackPreview;
  const health = { ...deploymentExample.health, status: "degraded", reason: "NewRevisionFailed" };
  const said = describeReturn({ name: "support", health } as unknown as Deployment, preview).join("\n");
  assert.match(said, /The newest revision failed and never served\. Without this rollback, 4 goes on serving\./);
});
