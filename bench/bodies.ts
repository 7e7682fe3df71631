import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { bodyLimits } from "../src/contract/body-limits.ts";
import { operations } from "../src/contract/operations.ts";
import { startServerProcess } from "../test/storm/server-process.ts";
import { loopWatch, turnMsGoal } from "../test/support/event-loop.ts";
import { hostileBodies } from "../test/support/hostile-bodies.ts";
import { toBeEnded } from "./endings.ts";
import type { BenchRun } from "./installation.ts";
import { type BenchLine, benchLine, median, percentile } from "./line.ts";

const rounds = { small: 2, full: 5 };

/** Measures how long one request can make all others wait: G17. */
export async function bodiesBench({ size }: BenchRun): Promise<BenchLine[]> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-bench-"));
  const loop = loopWatch(directory);
  const server = await startServerProcess(path.join(directory, "data"), {
    ...{ PORT: "0", PIERHEAD_COMPUTE: "none", PIERHEAD_RATE_LIMIT: "0" },
    ...loop.environment,
  });
  if (server === undefined) throw new Error("the server ended before it was ready");
  const stop = toBeEnded(async () => {
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  });
  try {
    const send = async (target: string, text: string, headers: Record<string, string>) => {
      await loop.longestTurnMs();
      await (await fetch(server.url + target, { method: "POST", headers, body: text })).arrayBuffer();
      return loop.longestTurnMs();
    };
    const worstOf = async ({ body, bodyLimits: limits, path: target }: Measured, headers: Record<string, string>) => {
      let worst = { name: "", ms: 0 };
      for (const { name, text } of hostileBodies(limits, body)) {
        const turns: number[] = [];
        for (let round = 0; round <= rounds[size]; round += 1) turns.push(await send(target, text, headers));
        // The first one compiles code.
        const ms = median(turns.slice(1));
        if (ms > worst.ms) worst = { name, ms };
      }
      return worst;
    };
    const floor = parseMs();
    const line = (who: string, { name, ms }: { name: string; ms: number }) =>
      benchLine({
        goal: "G17",
        name: `event loop held by the worst body (${name}) ${who}, against JSON.parse of an ordinary one`,
        ...{ floor, ours: ms, unit: "ms", target: { oursMax: turnMsGoal } },
      });
    return [
      line("without a key", await worstOf(operations.createSession, { "x-pierhead-console": "1" })),
      line("with a key", await worstOf(operations.createDeployment, { "x-api-key": server.apiKey })),
    ];
  } finally {
    await stop();
  }
}

type Measured = Pick<
  typeof operations.createSession | typeof operations.createDeployment,
  "body" | "bodyLimits" | "path"
>;

/** Returns the processor time to parse a body of the maximum size that contains a thousand secrets. */
function parseMs(): number {
  const each = Math.floor(bodyLimits.deployment.bytesMax / 1_000) - 40;
  const secrets = Array.from({ length: 1_000 }, (_, index) => ({ name: `NAME_${index}`, value: "x".repeat(each) }));
  const bytes = Buffer.from(JSON.stringify({ name: "support-bot", source: "github", secrets }));
  const times = Array.from({ length: 20 }, () => {
    const began = process.threadCpuUsage();
    JSON.parse(bytes.toString());
    const { user, system } = process.threadCpuUsage(began);
    return (user + system) / 1_000;
  });
  return percentile(times, 50);
}
