import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { after, before, test } from "node:test";
import { openProcessCompute } from "../../src/compute/process/process-compute.ts";
import { epochHeader } from "../../src/contract/listeners/assignment.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { type RunOptions, runCli, typing } from "../cli/run-cli.ts";
import { makeWorkspace } from "../security/two-workspaces.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { openTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { type ListenerProgram, startListenerProgram } from "./listener-program.ts";

const key = `ph_${randomBytes(6).toString("hex")}_${randomBytes(32).toString("base64url")}`;
let directory: string;
let pierhead: TestServer;
let listener: ListenerProgram;
let deploymentId: string;

const listenTo = (url: string, dataDir = directory) =>
  startListenerProgram({
    PIERHEAD_URL: url,
    PIERHEAD_LISTENER_KEY: key,
    PIERHEAD_COMPUTE: "process",
    PIERHEAD_DATA_DIR: dataDir,
  });

before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "pierhead-listener-"));
  pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none", PIERHEAD_LISTENER_KEY: key });
  listener = await listenTo(pierhead.url);
  deploymentId = await deployBot(pierhead);
});

/** Deploys an agent that also speaks WebSocket. @returns its id */
async function deployBot({ client }: TestServer): Promise<string> {
  await using repository = await createAgentRepository();
  const { "server.js": server } = nodeAgent("one");
  const upgrade = `
    server.on("upgrade", (request, socket) => {
      socket.on("error", () => socket.destroy());
      socket.write("HTTP/1.1 101 Switching Protocols\\r\\nconnection: Upgrade\\r\\nupgrade: websocket\\r\\n\\r\\n");
      socket.pipe(socket);
    });`;
  await repository.commit({ "server.js": server + upgrade });
  const made = await client.createDeployment({
    body: {
      name: "bot",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      secrets: [{ name: "GREETING", value: "good morning" }],
    },
  });
  const wanted = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
  const revision = await client.waitForRevision(wanted);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  return made.id;
}

after(async () => {
  await listener?.stop();
  await pierhead?.[Symbol.asyncDispose]();
  await removeAgents(directory);
});

/** Ends the agents that a listener has started, and removes its directory. */
async function removeAgents(dataDir: string): Promise<void> {
  const compute = await openProcessCompute({ dataDir, logger: createLogger("silent"), nodePath: process.execPath });
  const signal = AbortSignal.timeout(20_000);
  for (const { replicaId } of await compute.observe(signal)) await compute.remove(replicaId, { graceMs: 0, signal });
  await compute.close();
  await rm(dataDir, { recursive: true, force: true });
}

const run = (argv: string[], options: RunOptions = {}, server = pierhead) =>
  runCli(argv, {
    ...options,
    env: { PIERHEAD_URL: server.url, PIERHEAD_API_KEY: server.apiKey, PIERHEAD_DATA_DIR: "" },
  });

test("exec runs a program where the listener runs the agent, and records it", async () => {
  const program = `
    console.log(process.env.GREETING, require("node:fs").readFileSync(0, "utf8"));
    console.error("problem");
    process.exit(7);`;
  const ran = await run(["exec", "bot", "--", "node", "-e", program], { stdin: "typed" });
  assert.deepEqual([ran.code, ran.stdout, ran.stderr], [7, "good morning typed\n", "problem\n"]);
  const missing = await run(["exec", "bot", "--", "no-such-program"]);
  assert.deepEqual([missing.code, /no such program in PATH/.test(missing.stderr)], [127, true], missing.stderr);
  const { stdout } = await run(["exec", "bot", "--json", "--", "sh", "-c", "echo a"]);
  const { items } = await pierhead.client.listAuditLog({});
  const row = items.find(({ action, details }) => action === "deployment.exec" && details?.["program"] === "sh");
  assert.deepEqual(row?.details, { program: "sh", replica_id: JSON.parse(stdout).replica_id });
  assert.match((await run(["exec", "bot", "--replica", "x", "--", "env"])).stderr, /replica x does not run/);
});

test("large input and output arrive whole through the listener, though the reader is slow", async () => {
  const input = "0123456789abcdef\n".repeat(300_000);
  const slow =
    "process.stdin.on('data', (c) => { process.stdin.pause(); setTimeout(() => process.stdin.resume(), 1); process.stdout.write(c); })";
  const { code, stdout, stderr } = await run(["exec", "bot", "--", "node", "-e", slow], { stdin: input });
  assert.equal(code, 0, stderr);
  assert.ok(stdout === input, `${stdout.length} of ${input.length} characters`);
});

test("a shell has a terminal through the listener", { skip: !existsSync("/usr/bin/python3") }, async () => {
  const { code, stdout } = await run(["shell", "bot"], typing("stty size; echo $GREETING; exit 3"));
  assert.equal(code, 3, stdout);
  assert.match(stdout, /\n24 93\r\ngood morning\r\n/);
});

/** Runs a program that never ends. @returns its process id, and the command */
async function runForever(signal?: AbortSignal) {
  let pid = 0;
  const ran = run(["exec", "bot", "--", "sh", "-c", "sleep 1000 & echo $!; wait"], {
    stdin: new PassThrough(),
    ...(signal && { signal }),
    onStdout(text) {
      pid = Number(text);
    },
  });
  await eventually(
    async () => pid,
    (seen) => seen > 0,
  );
  return { pid, ran };
}

const isGone = (pid: number) =>
  eventually(
    async () => existsSync(`/proc/${pid}`),
    (isThere) => !isThere,
    { what: "the end of the program" },
  );

test("a program ends when its caller leaves, and when its listener stops", async () => {
  const left = new AbortController();
  const first = await runForever(left.signal);
  left.abort();
  assert.equal((await first.ran).code, 2);
  await isGone(first.pid);
  const second = await runForever();
  await listener.stop();
  const ended = await second.ran;
  assert.deepEqual([ended.code, /connection to the listener/.test(ended.stderr)], [1, true], ended.stderr);
  await isGone(second.pid);
  listener = await listenTo(pierhead.url);
  const again = await run(["exec", "bot", "--", "sh", "-c", "echo $GREETING"]);
  assert.equal(again.stdout, "good morning\n", again.stderr);
});

test("port-forward goes through the listener, with streams and WebSockets, and reaches no other deployment", async () => {
  const ended = new AbortController();
  const { promise: printed, resolve } = Promise.withResolvers<string>();
  const argv = ["port-forward", "bot", "--through-server"];
  const ran = run(argv, { signal: ended.signal, onStdout: (text) => resolve(text.trim()) });
  const url = await Promise.race([printed, ran.then(({ stderr }) => assert.fail(stderr))]);
  let left: Promise<unknown> | undefined;
  try {
    const { version } = (await (await fetch(`${url}/?ms=1`)).json()) as { version: string };
    assert.equal(version, "one");
    const events = await (await fetch(`${url}/events?count=2`, { method: "POST", body: "x".repeat(100_000) })).text();
    assert.equal(events, "data: 1\n\ndata: 2\n\n");
    const below = (await (await fetch(`${url}/d/other/version`)).json()) as { version: string };
    assert.equal(below.version, "one", "a path names no other deployment");
    const upgrade = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" };
    const { hostname, port } = new URL(url);
    const headers = { ...upgrade, "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" };
    const sent = request({ hostname, port, headers }).end();
    const [, tunnel] = (await once(sent, "upgrade")) as [IncomingMessage, NodeJS.ReadWriteStream];
    tunnel.write("through the tunnel");
    assert.equal(String((await once(tunnel, "data"))[0]), "through the tunnel");
    left = once(tunnel, "close");
  } finally {
    ended.abort();
  }
  assert.equal((await ran).code, 0);
  await left;
  const { items } = await pierhead.client.listAuditLog({});
  assert.ok(items.some(({ action }) => action === "deployment.connect"));
});

test("refuses readers, strangers, and keys that are not the listener's", async () => {
  const reader = await pierhead.client.createApiKey({ body: { name: "reader", role: "reader" } });
  const stranger = await makeWorkspace(pierhead);
  const statusOf = (at: string, apiKey: string, protocol: string, epoch = "0") => {
    const { hostname, port } = new URL(pierhead.url);
    const headers = { connection: "Upgrade", upgrade: protocol, "x-api-key": apiKey, [epochHeader]: epoch };
    const sent = request({ hostname, port, path: at, headers }).end();
    return new Promise<number | undefined>((resolve, reject) => {
      sent.on("response", (answer) => resolve(answer.resume().statusCode));
      sent.on("upgrade", (answer, socket) => {
        socket.destroy();
        resolve(answer.statusCode);
      });
      sent.on("error", reject);
    });
  };
  const connect = `/v2/deployments/${deploymentId}/connect`;
  assert.equal(await statusOf(connect, reader.key, "pierhead-connect"), 403);
  assert.equal(await statusOf(connect, stranger.apiKey, "pierhead-connect"), 404);
  for (const at of ["/dp/v1/tunnels", `/dp/v1/tunnels/${crypto.randomUUID()}`]) {
    assert.equal(await statusOf(at, pierhead.apiKey, "pierhead-tunnel"), 403, at);
    assert.equal(await statusOf(at, key, "pierhead-tunnel"), 409, "a session that is not the newest");
    assert.equal(await statusOf(at, key, "pierhead-tunnel", "none"), 409, "no session");
  }
});

test("a program runs through a listener that is connected to another replica of the control plane (postgres)", async (context) => {
  const database = await openTestDatabase("postgres");
  if (database === undefined) return context.skip("PostgreSQL is not installed");
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-listener-"));
  const environment = {
    ...{ PIERHEAD_COMPUTE: "none", PIERHEAD_LISTENER_KEY: key, DATABASE_URL: database.databaseUrl as string },
    PIERHEAD_MASTER_KEY: randomBytes(32).toString("hex"),
    PIERHEAD_ADMIN_KEY: `ph_${"a".repeat(40)}`,
  };
  const first = await startTestServer(environment);
  const second = await startTestServer(environment);
  const remote = await listenTo(second.url, dataDir);
  try {
    await deployBot(first);
    for (const server of [first, second]) {
      const ran = await run(["exec", "bot", "--", "cat"], { stdin: "typed" }, server);
      assert.deepEqual([ran.code, ran.stdout], [0, "typed"], ran.stderr);
    }
    await second.server.close();
    const without = await run(["exec", "bot", "--", "true"], {}, first);
    assert.match(without.stderr, /did not open a connection in time/);
  } finally {
    await remote.stop();
    await first[Symbol.asyncDispose]();
    await removeAgents(dataDir);
    await database.close();
  }
});
