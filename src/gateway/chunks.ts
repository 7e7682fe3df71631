import type { IncomingMessage } from "node:http";
import type { BurstsOfServer } from "./burst-turns.ts";

/**
 * Chunks in one read of 64 KiB above which a stream has to wait for its next turn. They have less than 60 bytes each: an event with
 * one token is longer.
 */
const chunksMax = 1_000;

/**
 * Calls `use` once for all chunks of a body that arrived in one turn of the event loop, still in that turn: a sender chooses the
 * size of its chunks, and forwarding each takes longer than receiving it. Of the streams that send thousands in one turn, only one
 * continues at a time, so that others wait for one of them and not for all.
 * @param server the agent server that sends the body, or receives it
 */
export function onChunks(
  stream: IncomingMessage,
  use: (bytes: Buffer) => void,
  server: { bursts: BurstsOfServer; isSender: boolean },
): void {
  let pending: Buffer[] = [];
  const flush = () => {
    if (pending.length === 0) return;
    const [first] = pending;
    const bytes = pending.length === 1 && first !== undefined ? first : Buffer.concat(pending);
    const isBurst = pending.length > chunksMax;
    pending = [];
    use(bytes);
    if (isBurst && server.isSender) server.bursts.seen();
    if (!isBurst || stream.isPaused()) return;
    pauseBody(stream);
    server.bursts.takeTurn(() => {
      resumeBody(stream);
      return !stream.destroyed;
    });
  };
  stream.on("data", (chunk: Buffer) => {
    if (pending.push(chunk) === 1) process.nextTick(flush);
  });
  stream.on("end", flush);
}

/**
 * Pauses a body and its connection. A body that alone is paused still takes what its connection reads next, in chunks that the sender
 * chooses: 64 KiB as chunks of one byte take 2 MB.
 */
export function pauseBody(body: IncomingMessage): void {
  body.pause();
  // In a tick of its own, because the body has planned to continue its connection. A later one would miss further reads of this turn.
  process.nextTick(() => {
    if (body.isPaused() && !body.complete) body.socket.pause();
  });
}

export function resumeBody(body: IncomingMessage): void {
  body.resume();
  // Continues the connection, unless it is paused for another reason.
  if (!body.destroyed) body._read(0);
}
