import { request } from "node:http";

/** A server that is busy starting answers late; a healthy one answers within milliseconds. */
const answerTimeoutMs = 2_000;

/** Enough for any `/info`; a health answer is read and thrown away. */
const answerBytesMax = 64 * 1024;

/**
 * What is left of a start, of which a record says when it began: by the clock of the machine, as the server may be another
 * one since. Never more than the whole of it, whatever has become of that clock.
 */
export function remainingStartMs({ startedAt, startTimeoutMs }: { startedAt: string; startTimeoutMs: number }): number {
  return Math.min(startTimeoutMs, Date.parse(startedAt) + startTimeoutMs - Date.now());
}

/** One GET on the loopback. @returns undefined when nobody answered in time. */
export async function getFromLoopback(
  port: number,
  path: string,
  timeoutMs = answerTimeoutMs,
): Promise<{ status: number; body: string } | undefined> {
  const { promise, resolve } = Promise.withResolvers<{ status: number; body: string } | undefined>();
  // No agent: a kept connection would count as a client of a replica that is to drain.
  const call = request({ host: "127.0.0.1", port, path, agent: false, signal: AbortSignal.timeout(timeoutMs) });
  call.on("error", () => resolve(undefined));
  call.on("response", (response) => {
    let body = "";
    response.setEncoding("utf8");
    response.on("data", (text: string) => {
      if (body.length < answerBytesMax) body += text;
      else response.destroy();
    });
    response.on("close", () => resolve({ status: response.statusCode ?? 0, body }));
  });
  call.end();
  return promise;
}

/** Version of an agent server from its `/info` (contract 7.1). @returns null when it does not say. */
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
 * Runs that wait or are worked on, as LangGraph servers in Python count them (`GET /metrics?format=json`, contract 7.1). With
 * a database that replicas share it is the number of all of them.
 * @returns null when it says nothing of runs and never will; undefined when it did not answer.
 */
export async function readRunCount(port: number): Promise<number | null | undefined> {
  const answer = await getFromLoopback(port, "/metrics?format=json");
  if (answer === undefined || answer.status >= 500) return undefined;
  try {
    const { queue } = JSON.parse(answer.body) as { queue?: { n_pending?: unknown; n_running?: unknown } };
    const [pending, running] = [queue?.n_pending, queue?.n_running].map((count) =>
      Number.isSafeInteger(count) ? Math.max(0, count as number) : null,
    );
    return pending == null ? null : pending + (running ?? 0);
  } catch {
    return null;
  }
}
