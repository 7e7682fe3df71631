import { request } from "node:http";
import type { ReplicaState, RunCounts } from "./compute.ts";

/** A server that is busy starting answers late; a healthy server answers within milliseconds. */
const answerTimeoutMs = 2_000;

/** Enough for any `/info`. The body of a health check is read and discarded. */
const answerBytesMax = 64 * 1024;

/**
 * Interim answers (1xx) and bytes of an answer with its framing, which may be six times as long as its body. Twelve agents that sent either
 * without end made requests of others wait for 0.3 s.
 */
const interimMax = 100;
const rawBytesMax = 512 * 1024;

/**
 * Returns the time left for a start, from its recorded begin. Uses the wall clock, because another server process may have
 * recorded it. Never returns more than the whole timeout, even if the clock was set back.
 */
export function remainingStartMs({ startedAt, startTimeoutMs }: { startedAt: string; startTimeoutMs: number }): number {
  return Math.min(startTimeoutMs, Date.parse(startedAt) + startTimeoutMs - Date.now());
}

/** Sends one GET request to the loopback interface. @returns undefined when no answer arrived in time. */
export const getFromLoopback = (
  port: number,
  path: string,
  timeoutMs = answerTimeoutMs,
): Promise<{ status: number; body: string } | undefined> => askLoopback({ port, path, timeoutMs });

async function askLoopback({
  port,
  path,
  timeoutMs = answerTimeoutMs,
  json,
  asStudio = json !== undefined,
}: {
  port: number;
  path: string;
  timeoutMs?: number;
  json?: unknown;
  /** Agents with their own auth accept this scheme unless they have switched it off. */
  asStudio?: boolean;
}): Promise<{ status: number; body: string } | undefined> {
  const { promise, resolve } = Promise.withResolvers<{ status: number; body: string } | undefined>();
  // No agent: a keep-alive connection would count as a client while the replica drains.
  const method = json === undefined ? "GET" : "POST";
  const headers = {
    // Sites that choose a language fail on a request that names none.
    "accept-language": "en",
    ...(json !== undefined && { "content-type": "application/json" }),
    ...(asStudio && { "x-auth-scheme": "langsmith" }),
  };
  const signal = AbortSignal.timeout(timeoutMs);
  const call = request({ host: "127.0.0.1", port, path, method, headers, agent: false, signal });
  call.on("error", () => resolve(undefined));
  let interim = 0;
  call.on("information", () => {
    interim += 1;
    if (interim > interimMax) call.destroy();
  });
  let rawBytes = 0;
  call.on("socket", (socket) => {
    socket.on("data", ({ length }: Buffer) => {
      rawBytes += length;
      if (rawBytes > rawBytesMax) call.destroy();
    });
  });
  call.on("response", (response) => {
    // A stream of events has no end, but its head says enough.
    if (/^text\/event-stream/.test(response.headers["content-type"] ?? "")) {
      resolve({ status: response.statusCode ?? 0, body: "" });
      response.destroy();
      return;
    }
    let body = "";
    response.setEncoding("utf8");
    response.on("data", (text: string) => {
      if (body.length < answerBytesMax) body += text;
      else response.destroy();
    });
    response.on("close", () => resolve({ status: response.statusCode ?? 0, body }));
  });
  call.end(json === undefined ? undefined : JSON.stringify(json));
  return promise;
}

/** Paths that are asked in order when a server names no health path. */
const usualHealthPaths = ["/ok", "/health", "/healthz", "/"] as const;

/** How a server showed that it can serve: the path that answered 200, or null when any response had to do. */
export interface Healthy {
  path: string | null;
}

/**
 * Checks the health of a server once.
 * @param path that must answer 200. Empty: the first usual path that answers 200 counts; if none does, any response counts,
 * except that of a server that reports an error on such a path, because it is still starting.
 */
export async function checkHealth(
  port: number,
  path: string,
): Promise<{ healthy: Healthy | null; status: number | null }> {
  if (path !== "") {
    const status = (await getFromLoopback(port, path))?.status ?? null;
    return { healthy: status === 200 ? { path } : null, status };
  }
  let last: number | null = null;
  for (const usual of usualHealthPaths) {
    const answer = await getFromLoopback(port, usual);
    if (answer === undefined) return { healthy: null, status: last };
    if (answer.status >= 200 && answer.status < 300) return { healthy: { path: usual }, status: answer.status };
    const isStarting = answer.status === 503 || (answer.status >= 500 && usual !== "/");
    if (isStarting) return { healthy: null, status: answer.status };
    last = answer.status;
  }
  return { healthy: { path: null }, status: last };
}

/**
 * Requests each path of a health check once more, for the message about a server that never became healthy.
 * @returns "503 on /ok, 404 on /health ..."; null: the server answers on no path.
 */
export async function describeAnswers(port: number, path: string): Promise<string | null> {
  const paths = path === "" ? usualHealthPaths : [path];
  const answers = await Promise.all(
    paths.map(async (one) => [one, (await getFromLoopback(port, one))?.status] as const),
  );
  if (answers.every(([, status]) => status === undefined)) return null;
  return answers.map(([one, status]) => `${status ?? "nothing"} on ${one}`).join(", ");
}

/** Returns what to do about a server whose answers fail its health check. */
export const answersBadly = (answers: string, path: string): string => {
  const change =
    path === ""
      ? "or name a path that answers 200 as `health` in pierhead.json"
      : "or correct `health` in pierhead.json";
  return `At the end it answered ${answers}. Its log shows what fails: correct that, ${change}.`;
};

/** Describes the check for the log of a replica. */
export const describeHealthy = ({ path }: Healthy, port: number) =>
  path === null
    ? `pierhead: healthy: the server answers on port ${port}. It has none of ${usualHealthPaths.join(", ")} with 200; name a health path in pierhead.json to check more.`
    : `pierhead: healthy: GET ${path} answered 200 on port ${port}.`;

/** Names the checked path in a sentence. */
export const shownHealthPath = (path: string) => (path === "" ? `any of ${usualHealthPaths.join(", ")}` : path);

/** Returns the version of an agent server from its `/info` (contract 7.1), or null when it reports none. */
export async function readServerVersion(port: number): Promise<string | null> {
  const answer = await getFromLoopback(port, "/info");
  if (answer?.status !== 200) return null;
  try {
    const { version } = JSON.parse(answer.body) as { version?: unknown };
    return typeof version === "string" && version.length <= 128 ? version : null;
  } catch {
    return null;
  }
}

/**
 * Returns the runs as LangGraph servers in Python and the engine on PostgreSQL report them (`GET /metrics?format=json`,
 * contract 7.1). Replicas that share a database all report the total.
 * @returns null when the server does not report runs at all; undefined when it did not answer.
 */
async function readRunCounts(port: number): Promise<RunCounts | null | undefined> {
  const answer = await askLoopback({ port, path: "/metrics?format=json", asStudio: true });
  if (answer === undefined || answer.status >= 500) return undefined;
  try {
    if (answer.status === 404) return null;
    const { queue } = JSON.parse(answer.body) as { queue?: Record<string, unknown> };
    const countOf = (name: string) => {
      const count = queue?.[name];
      return Number.isSafeInteger(count) ? Math.max(0, count as number) : null;
    };
    const pending = countOf("n_pending");
    if (pending === null) return null;
    return {
      pending,
      running: countOf("n_running") ?? 0,
      failed: countOf("n_failed"),
      recovered: countOf("n_recovered"),
      ...tokensOf(countOf("n_input_tokens"), countOf("n_output_tokens")),
      ...nextDueOf(queue?.["next_due_secs"]),
    };
  } catch {
    return null;
  }
}

const tokensOf = (input: number | null, output: number | null): Pick<RunCounts, "tokens"> =>
  input === null || output === null ? {} : { tokens: { input, output } };

function nextDueOf(seconds: unknown): Pick<RunCounts, "nextDueInMs"> {
  if (seconds === null) return { nextDueInMs: null };
  return typeof seconds === "number" && seconds >= 0 ? { nextDueInMs: seconds * 1_000 } : {};
}

/** Returns the number of pending and running runs. @returns null and undefined as `readRunCounts`. */
async function readRunCount(port: number): Promise<number | null | undefined> {
  const counts = await readRunCounts(port);
  return counts && counts.pending + counts.running;
}

const busyThreadsMax = 100;

/**
 * Returns the number of runs in progress: as `readRunCount`, or the number of busy threads where a LangGraph server does
 * not report runs, as the one in JavaScript.
 * @returns undefined also when the server's own auth refuses the question, because it may have runs.
 */
export async function readRunsInProgress(port: number): Promise<number | null | undefined> {
  const count = await readRunCount(port);
  if (count !== null) return count;
  const json = { status: "busy", limit: busyThreadsMax, select: ["thread_id"] };
  const answer = await askLoopback({ port, path: "/threads/search", json });
  if (answer === undefined || answer.status >= 500 || [401, 403].includes(answer.status)) return undefined;
  if (answer.status !== 200) return null;
  try {
    const found: unknown = JSON.parse(answer.body);
    return Array.isArray(found) ? found.length : null;
  } catch {
    return answer.body.startsWith("[{") ? 1 : null; // the answer of an old server has more bytes than are read
  }
}

/** Returns the runs that a replica of this machine reports, as `readRunCounts` does; undefined also for one that is not ready. */
export async function runCountsOf(replica: ReplicaState | undefined): Promise<RunCounts | null | undefined> {
  const port = replica?.address?.port;
  return port === undefined ? undefined : readRunCounts(port);
}

/** Returns the number of runs of a replica of this machine; undefined also for one that is not ready. */
export async function runsInProgressOf(replica: ReplicaState | undefined): Promise<number | null | undefined> {
  if (replica?.address === undefined) return undefined;
  const { address, serverVersion } = replica;
  return serverVersion === undefined ? readRunCount(address.port) : readRunsInProgress(address.port);
}
