import { request } from "node:http";
import path from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

/** Goal for the longest turn of a server's event loop that one request causes: others wait that long. */
export const turnMsGoal = 50;

export interface LoopWatch {
  /** Environment for the server process to be watched. */
  environment: Record<string, string>;
  /** Returns the milliseconds of the longest turn of the event loop since the last call. */
  longestTurnMs(): Promise<number>;
}

/** @param directory holds the socket of the watched server. */
export function loopWatch(directory: string): LoopWatch {
  const socketPath = path.join(directory, "loop.sock");
  const preload = pathToFileURL(path.resolve("test/support/watch-event-loop.ts"));
  return {
    environment: { NODE_OPTIONS: `--import ${preload}`, PIERHEAD_TEST_LOOP_SOCKET: socketPath },
    longestTurnMs: () =>
      new Promise((resolve, reject) => {
        const asked = request({ socketPath, agent: false }, (response) => {
          text(response).then((answer) => resolve(Number(answer)), reject);
        });
        asked.once("error", reject).end();
      }),
  };
}
