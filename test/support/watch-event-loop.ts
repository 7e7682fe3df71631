import { rmSync } from "node:fs";
import { createServer } from "node:http";
import { isMainThread } from "node:worker_threads";

/**
 * Preloaded into a server process (`loopWatch` in event-loop.ts): measures how long single turns of its event loop last, and
 * answers requests on a socket of its own with the longest one since the last request. A turn is measured by the processor
 * time of the main thread, so that other programs on the machine do not count. Garbage collection of the server does.
 */
const socket = process.env["PIERHEAD_TEST_LOOP_SOCKET"];
if (isMainThread && process.argv[2] === "up" && socket !== undefined) watch(socket);

function watch(path: string): void {
  let longestMs = 0;
  let last = { wallMs: performance.now(), usedMs: usedMs() };
  const sample = () => {
    const now = { wallMs: performance.now(), usedMs: usedMs() };
    longestMs = Math.max(longestMs, Math.min(now.usedMs - last.usedMs, now.wallMs - last.wallMs));
    last = now;
  };
  setInterval(sample, 1).unref();
  const server = createServer((_request, response) => {
    sample();
    response.end(String(longestMs));
    longestMs = 0;
  });
  // The program replaces itself once when it starts, which leaves the first socket behind.
  rmSync(path, { force: true });
  server.listen(path).unref();
}

function usedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
