import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { after, before, test } from "node:test";
import type { LogEntry } from "../../src/contract/logs/log.ts";
import { appendLogEntries } from "../../src/store/logs/log-entries.ts";
import { eventually } from "../support/eventually.ts";
import { startWithTwoWorkspaces, type TwoWorkspaces, type Workspace } from "./two-workspaces.ts";
import { victimIsAnsweredBeside } from "./victim-answers.ts";

/** What an agent writes, and how its workspace reads it, must not cost the others. */
let world: TwoWorkspaces;
let deploymentId: string;
const lines = 400;
const lineBytes = 64_000;
const mib = 1024 * 1024;

before(async () => {
  world = await startWithTwoWorkspaces({ PIERHEAD_COMPUTE: "none" });
  deploymentId = await createLog(world.attacker, { lines, at: "2026-11-20T10:00:00Z" });
});
after(() => world[Symbol.asyncDispose]());

/** Stores a log as an agent writes it that gives all of its lines the same time. */
async function createLog(
  { api, id: tenantId }: Workspace,
  log: { name?: string; lines: number; at: string },
): Promise<string> {
  const body = { source: "internal_source" as const, source_config: {}, source_revision_config: {}, secrets: [] };
  const { id } = await api.createDeployment({ body: { ...body, name: log.name ?? "noisy" } });
  const entries = Array.from({ length: log.lines }, (_, at) => ({
    ...{ tenant_id: tenantId, deployment_id: id, revision_id: id, kind: "deploy" as const },
    ...{ replica_id: "replica", stream: "stdout", level: "INFO" as const, logged_at: new Date(log.at), line_key: null },
    message: `${at} ${"x".repeat(lineBytes)}`,
  }));
  for (let from = 0; from < entries.length; from += 100) {
    await appendLogEntries(world.pierhead.server.db, entries.slice(from, from + 100));
  }
  return id;
}

const ask = async (path: string, body?: object) => {
  const { apiKey } = world.attacker;
  const post = body && { method: "POST", body: JSON.stringify(body) };
  const headers = { "x-api-key": apiKey, "content-type": "application/json" };
  const answer = await fetch(world.pierhead.url + path, { headers, ...post });
  const text = await answer.text();
  return { status: answer.status, text, body: JSON.parse(text) as { logs: LogEntry[]; next_offset: string | null } };
};

const numbers = (logs: readonly LogEntry[]) => logs.map(({ message }) => Number(message.split(" ")[0]));
const inOrder = Array.from({ length: lines }, (_, at) => at);

test("a page of large lines ends early, and the next one continues without a gap", async () => {
  for (const order of ["asc", "desc"]) {
    const read: number[] = [];
    let offset = "";
    for (let page = 0; page < 10; page += 1) {
      const path = `/v2/deployments/${deploymentId}/logs?type=deploy&limit=1000&order=${order}${offset}`;
      const { text, body } = await ask(path);
      assert.ok(text.length < 9 * mib, `${text.length} bytes`);
      read.push(...numbers(body.logs));
      if (body.next_offset === null || body.logs.length === 0) break;
      offset = `&offset=${body.next_offset}`;
    }
    assert.deepEqual(read, order === "asc" ? inOrder : inOrder.toReversed());
  }
});

test("control characters count as they are sent", async () => {
  const id = await createLog(world.victim, { name: "control", lines: 1, at: "2026-11-20T10:00:00Z" });
  const entry = {
    ...{ tenant_id: world.victim.id, deployment_id: id, revision_id: id, kind: "deploy" as const },
    ...{ replica_id: "replica", stream: "stdout", level: "INFO" as const, logged_at: new Date(), line_key: null },
    message: "\u0001".repeat(lineBytes),
  };
  await appendLogEntries(world.pierhead.server.db, new Array(60).fill(entry));
  const { logs } = await world.victim.api.getDeploymentLogs({ deployment_id: id, type: "deploy", limit: 1000 });
  assert.ok(JSON.stringify(logs).length < 9 * mib, `${logs.length} lines`);
  const tail = await world.victim.api.tailLogs({ deployment_id: id, type: "deploy" }, 61);
  assert.equal(tail.length, 61, "the client reads on after a page that ended early");
});

test("a page from a time on is bounded as well, and a client that follows by time advances", async () => {
  const later = "2026-11-20T10:00:01Z";
  const id = await createLog(world.victim, { name: "timed", lines: 300, at: "2026-11-20T10:00:00Z" });
  const { tenant_id } = await world.victim.api.getDeployment({ deployment_id: id });
  const entry = {
    ...{ tenant_id, deployment_id: id, revision_id: id, kind: "deploy" as const, replica_id: "replica" },
    ...{ stream: "stdout", level: "INFO" as const, logged_at: new Date(later), line_key: null },
    message: `later ${"x".repeat(lineBytes)}`,
  };
  await appendLogEntries(world.pierhead.server.db, new Array(300).fill(entry));
  const headers = { "x-api-key": world.victim.apiKey, "content-type": "application/json" };
  const page = async (start_time: string) => {
    const body = JSON.stringify({ limit: 1000, start_time });
    const answer = await fetch(`${world.pierhead.url}/v1/projects/${id}/deploy_logs`, {
      method: "POST",
      headers,
      body,
    });
    const text = await answer.text();
    assert.ok(text.length < 18 * mib, `${text.length} bytes`);
    return (JSON.parse(text) as { logs: LogEntry[] }).logs;
  };
  const first = await page("2026-11-20T10:00:00Z");
  assert.equal(first.at(-1)?.timestamp, "2026-11-20T10:00:01.000Z");
});

test("a model gets the newest lines, shortened, and every tool says that results are data", async () => {
  const call = async (method: string, params: object) => {
    const headers = { "x-api-key": world.attacker.apiKey, "content-type": "application/json" };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const accept = "application/json, text/event-stream";
    const answer = await fetch(`${world.pierhead.url}/mcp`, { method: "POST", headers: { ...headers, accept }, body });
    return answer.text();
  };
  const args = { deployment: "noisy", kind: "agent", lines: 500 };
  const read = await call("tools/call", { name: "read_logs", arguments: args });
  assert.ok(read.length < 300_000, `${read.length} characters`);
  assert.match(read, new RegExp(` INFO ${lines - 1} x+…`));
  const listed = await call("tools/list", {});
  assert.equal(listed.match(/data, never as instructions/g)?.length, listed.match(/"inputSchema"/g)?.length);
});

/** Sends requests and reads no answer. */
function askWithoutReading(count: number, path: string, headers = ""): Socket[] {
  const port = Number(new URL(world.pierhead.url).port);
  const { apiKey } = world.attacker;
  return Array.from({ length: count }, () => {
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    socket.pause();
    socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: ${apiKey}\r\n${headers}\r\n`);
    return socket;
  });
}

const logsPath = () => `/v2/deployments/${deploymentId}/logs?type=deploy&limit=1000`;

test("a workspace that does not read its answers gets no more of them, and another one does", async () => {
  const sockets = askWithoutReading(20, logsPath());
  try {
    const isRefused = ({ status }: { status: number }) => status === 429;
    await eventually(() => ask(logsPath()), isRefused, { timeoutMs: 30_000, what: "a refusal" });
    assert.equal((await ask("/v2/deployments?limit=1")).status, 200, "small answers have room");
    await world.victim.api.listDeployments({});
  } finally {
    for (const socket of sockets) socket.destroy();
  }
  const isAnswered = ({ status }: { status: number }) => status === 200;
  await eventually(() => ask(logsPath()), isAnswered, { timeoutMs: 30_000, what: "an answer after they have left" });
});

test("another workspace is answered while 100 streams read a long log from its start", async () => {
  const path = `/v2/deployments/${deploymentId}/events?logs=deploy&logs_after=0`;
  const memoryBefore = process.memoryUsage.rss();
  await victimIsAnsweredBeside(world, async (signal) => {
    const sockets = askWithoutReading(100, path, "accept: text/event-stream\r\n");
    await once(signal, "abort");
    for (const socket of sockets) socket.destroy();
  });
  const grown = (process.memoryUsage.rss() - memoryBefore) / mib;
  assert.ok(grown < 1_000, `memory grew by ${Math.round(grown)} MiB`);
});
