import type { Readable } from "node:stream";

/** Chunks of one turn of the event loop above which a stream has to wait for its next turn. No server writes so many so small ones. */
const chunksMax = 500;

/** Continue one stream each: those that have sent too many chunks. */
const waiting: (() => void)[] = [];

function takeTurn(next: () => void): void {
  if (waiting.push(next) === 1) setImmediate(continueOne);
}

function continueOne(): void {
  waiting[0]?.();
  waiting.shift();
  if (waiting.length > 0) setImmediate(continueOne);
}

/**
 * Calls `use` once for all chunks of a body that arrived in one turn of the event loop, still in that turn: a sender chooses the
 * size of its chunks, and forwarding each takes longer than receiving it. Of the streams that send thousands in one turn, only one
 * continues in each turn, so that others wait for one of them and not for all.
 */
export function onChunks(stream: Readable, use: (bytes: Buffer) => void): void {
  let pending: Buffer[] = [];
  const flush = () => {
    if (pending.length === 0) return;
    const [first] = pending;
    const bytes = pending.length === 1 && first !== undefined ? first : Buffer.concat(pending);
    const isStorm = pending.length > chunksMax;
    pending = [];
    use(bytes);
    if (!isStorm || stream.isPaused()) return;
    stream.pause();
    takeTurn(() => stream.resume());
  };
  stream.on("data", (chunk: Buffer) => {
    if (pending.push(chunk) === 1) process.nextTick(flush);
  });
  stream.on("end", flush);
}
