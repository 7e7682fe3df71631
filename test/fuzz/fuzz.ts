import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { errorHeader } from "../../src/contract/error.ts";
import { operations } from "../../src/contract/operations.ts";
import { turnMsGoal } from "../support/event-loop.ts";
import { checkResponse } from "./check-response.ts";
import { type Answer, exchange } from "./exchange.ts";
import { type FuzzRequest, hostileRequests, requestNumber } from "./requests.ts";
import { checkTables } from "./tables.ts";
import { startTarget, type Target } from "./target.ts";

/**
 * npm run fuzz [-- --requests N] [--seed N] [--lanes N] [--turn-ms N] [--replay INDEX]: sends requests that are generated from the
 * operations table to a server of its own. Some are valid, others are wrong in shape, text, size, path, headers or framing.
 * No response may be a 500, and each must be one that its operation documents. At the end the server must be alive and its
 * tables consistent. The longest turn of the server's event loop is measured in the server, for the whole run and for each
 * hostile body alone: other requests wait that long. `--turn-ms` is the limit of such a turn, 50 by default; `npm run bench --
 * bodies` measures it on a machine that does nothing else. A request follows from the seed and its number: `--replay` sends only that one and shows the response.
 * Ends with the line `N passed, N failed`.
 */
const { values: options } = parseArgs({
  options: {
    requests: { type: "string", default: "2000" },
    seed: { type: "string" },
    lanes: { type: "string", default: "24" },
    "turn-ms": { type: "string", default: String(turnMsGoal) },
    replay: { type: "string" },
  },
});
const seed = options.seed === undefined ? randomInt(2 ** 31) : Number(options.seed);
const total = Number(options.requests);
const turnMsMax = Number(options["turn-ms"]);

const hostileAttempts = 3;

/** Failures of one kind to print; the others are counted. */
const shownMax = 3;
const failures = new Map<string, number>();
const counts = { passed: 0, failed: 0 };
const statuses = new Map<string, Map<number, number>>();
const codes = new Set<string>();
const accepted = new Set<string>();
const served = new Set<string>();

const target = await startTarget();
try {
  if (options.replay === undefined) await run(target);
  else await replay(target, Number(options.replay));
} finally {
  await target.server.stop();
  await finish(target);
  await target.remove();
}

async function run(one: Target): Promise<void> {
  console.log(`seed ${seed}, ${total} requests`);
  const began = performance.now();
  await one.loop.longestTurnMs();
  let next = 0;
  const lane = async () => {
    while (next < total && one.server.child.exitCode === null) {
      const index = next;
      next += 1;
      await attempt(one, index);
    }
  };
  await Promise.all(Array.from({ length: Number(options.lanes) }, lane));
  const seconds = (performance.now() - began) / 1_000;
  console.log(`${next} requests in ${seconds.toFixed(0)} s (${(next / seconds).toFixed(0)} a second)`);
  for (const [kind, byStatus] of [...statuses].sort()) {
    const shown = [...byStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, count]) => `${status === 0 ? "none" : status}: ${count}`);
    console.log(`  ${kind}: ${shown.join(", ")}`);
  }
  const unserved = Object.keys(operations).filter((id) => !served.has(id));
  for (const [kind, count] of failures) console.log(`  failed ${count}: ${kind}`);
  console.log(`  operations served: ${served.size}, never: ${unserved.join(", ") || "none"}`);
  console.log(
    `  refusals met: ${[...codes]
      .filter((code) => code !== "")
      .sort()
      .join(", ")}`,
  );
  console.log(`  longest turn of the event loop under this load: ${(await one.loop.longestTurnMs()).toFixed(1)} ms`);
  await measureHostile(one);
  await checkAlive(one);
}

/** Sends each hostile body alone. A turn that is too long is measured again, because code that is not compiled yet is slow. */
async function measureHostile(one: Target): Promise<void> {
  let worst = { name: "none", ms: 0 };
  let sent = 0;
  for (const { name, wanted } of hostileRequests(seed)) {
    let ms = Number.POSITIVE_INFINITY;
    for (let attempt = 0; attempt < hostileAttempts && ms > turnMsMax; attempt += 1) {
      await one.loop.longestTurnMs();
      const { sent: asked, answer } = await send(one, wanted);
      ms = Math.min(ms, await one.loop.longestTurnMs());
      sent += 1;
      const problem = checkResponse(asked, answer);
      if (problem !== undefined) fail(`${name}: ${problem}`);
    }
    if (ms > worst.ms) worst = { name, ms };
  }
  const shown = `${worst.ms.toFixed(1)} ms of the event loop (${worst.name}; ${sent} hostile bodies)`;
  console.log(`  worst request: ${shown}`);
  check(`no request holds the event loop longer than ${turnMsMax} ms: ${shown}`, worst.ms <= turnMsMax);
}

async function attempt(one: Target, index: number): Promise<void> {
  const wanted = requestNumber(seed, index);
  const { sent, answer, problem } = await send(one, wanted).then(
    (done) => ({ ...done, problem: checkResponse(done.sent, done.answer) }),
    (error: unknown) => ({ sent: wanted, answer: undefined, problem: String(error) }),
  );
  if (problem === undefined) counts.passed += 1;
  else {
    const how = `--seed ${seed} --replay ${index}\n${shown(sent, answer)}${await logOf(one, answer?.headers["x-request-id"])}`;
    fail(`${wanted.operation?.id ?? wanted.kind}: ${problem}`, how);
  }
}

/** Returns the server's log lines about a request, which explain a 500. */
async function logOf({ server }: Target, requestId = "none"): Promise<string> {
  // The log line arrives on another channel than the response.
  await setTimeout(100);
  const lines = server
    .logged()
    .split("\n")
    .filter((line) => line.includes(requestId));
  return lines.map((line) => `\n  log: ${line.slice(0, 1_000)}`).join("");
}

async function send(one: Target, wanted: FuzzRequest): Promise<{ sent: FuzzRequest; answer: Answer | undefined }> {
  const headers = { ...one.identify(wanted), ...wanted.headers };
  const sent = { ...wanted, path: await one.things.fill(wanted.path), headers };
  const answer = await exchange(one.origin, sent);
  record(one, wanted, answer);
  return { sent, answer };
}

/** Records what later requests and checks need from a response. */
function record(one: Target, wanted: FuzzRequest, answer: Answer | undefined): void {
  const status = answer?.status ?? 0;
  const byStatus = statuses.get(wanted.kind) ?? new Map<number, number>();
  statuses.set(wanted.kind, byStatus.set(status, (byStatus.get(status) ?? 0) + 1));
  if (answer === undefined || status >= 500) return;
  if (status < 300 && wanted.operation !== null) served.add(wanted.operation.id);
  codes.add(answer.headers[errorHeader] ?? "");
  if (wanted.verb === "DELETE" && status < 300) one.things.forget(wanted.path);
  if (answer.body.length === 0 || !answer.headers["content-type"]?.includes("json")) return;
  const body = JSON.parse(answer.body.toString());
  if (wanted.operation?.id === "createDeployment" && status === 201) accepted.add(body.id);
  if (wanted.operation?.id === "openListenerSession" && status === 201) one.opened(body.epoch);
}

function fail(problem: string, how = ""): void {
  counts.failed += 1;
  const kind = problem.replaceAll(/[\d"'[{<].*/gs, "");
  const count = (failures.get(kind) ?? 0) + 1;
  failures.set(kind, count);
  if (count <= shownMax) console.log(`FAIL ${problem.slice(0, 500)} ${how}`);
}

function shown({ verb, path, headers, body, transport }: FuzzRequest, answer: Answer | undefined): string {
  const { "x-api-key": _key, authorization: _bearer, ...rest } = headers;
  const lines = [`  ${verb} ${path.slice(0, 500)} (${transport})`, `  ${JSON.stringify(rest).slice(0, 500)}`];
  if (body !== null) lines.push(`  ${JSON.stringify(body.slice(0, 1_000))}`);
  if (answer !== undefined) lines.push(`  -> ${answer.status} ${JSON.stringify(answer.body.toString().slice(0, 500))}`);
  return lines.join("\n");
}

async function replay(one: Target, index: number): Promise<void> {
  const { sent, answer } = await send(one, requestNumber(seed, index));
  console.log(shown(sent, answer));
  const problem = checkResponse(sent, answer);
  if (problem === undefined) counts.passed += 1;
  else fail(problem);
}

/** Checks that the server answers in the same process as before and lost no change. */
async function checkAlive({ server }: Target): Promise<void> {
  const ready = await fetch(`${server.url}/ready`).catch(() => undefined);
  check("the server is alive", ready?.status === 200 && server.child.exitCode === null);
  const metrics = await fetch(`${server.url}/metrics`).then((answer) => answer.text());
  const corrections = /^pierhead_resync_corrections_total(?:\{.*\})? (\d+)/m.exec(metrics)?.[1] ?? "0";
  check(`no deployment was forgotten (${corrections} corrections)`, corrections === "0");
  console.log(`  memory of the server: ${memoryMib(server.child.pid as number)} MiB`);
}

async function finish({ server, dataDir }: Target): Promise<void> {
  const { code, signal } = await server.ended;
  check(`the server stops on request (${signal ?? code})`, code === 0);
  const { checked, broken } = await checkTables(dataDir, accepted);
  counts.passed += checked - broken.length;
  for (const rule of broken) fail(rule);
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
}

function check(name: string, holds: boolean): void {
  if (holds) counts.passed += 1;
  else fail(`failed: ${name}`);
}

function memoryMib(pid: number): number {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Math.round(Number(kib) / 1_024);
}
