import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "./eventually.ts";

/**
 * Starts a run of the graph `long` and waits until its first step is stored. Its second step takes as long as the message says.
 * `ended` waits until the thread is no longer busy, and returns its messages.
 */
export async function startRun(url: string, durationMs: number) {
  const call = async (pathname: string, body?: unknown) => {
    const response = await fetch(url + pathname, {
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      headers: { "content-type": "application/json" },
    });
    assert.equal(response.status, 200, `${pathname}: ${response.status}`);
    // biome-ignore lint/suspicious/noExplicitAny: the agent's own API, of which the test reads a few fields.
    return (await response.json()) as any;
  };
  const { thread_id: thread } = await call("/threads", {});
  const input = { messages: [{ role: "user", content: String(durationMs) }] };
  await call(`/threads/${thread}/runs`, { assistant_id: "long", input });
  const messages = async () =>
    ((await call(`/threads/${thread}/state`)).values.messages ?? []).map(
      (message: { content: string }) => message.content,
    );
  await eventually(messages, ({ length }) => length >= 2, { what: "the first step of the run" });
  const ended = async () => {
    const end = Date.now() + 120_000 + durationMs;
    while ((await call(`/threads/${thread}`)).status === "busy" && Date.now() < end) await sleep(200);
    return messages();
  };
  return { thread, ended };
}

/** Sends a request every 50 ms, until `stop` or the end of the test. */
export function startRequests(url: string, part: TestContext) {
  const failures: string[] = [];
  const requests: Promise<void>[] = [];
  let longestMs = 0;
  const timer = setInterval(() => {
    const beganMs = performance.now();
    const request = fetch(`${url}/info`).then(async (response) => {
      await response.text();
      longestMs = Math.max(longestMs, performance.now() - beganMs);
      if (response.status !== 200) failures.push(`GET /info: ${response.status}`);
    });
    requests.push(request.catch((error: unknown) => void failures.push(String(error))));
  }, 50);
  part.after(() => clearInterval(timer));
  return {
    async stop() {
      clearInterval(timer);
      await Promise.all(requests);
      return { failures, longestMs, count: requests.length };
    },
  };
}
