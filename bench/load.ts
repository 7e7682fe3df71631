import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export interface Load {
  port: number;
  /** The whole request, sent repeatedly. A function makes a new one each time. */
  request: string | (() => string);
  connections: number;
  durationMs: number;
  /** Pause of each connection between an answer and its next request. Default 0. */
  pauseMs?: number;
}

export interface LoadResult {
  requests: number;
  requestsPerS: number;
  /** Duration of each request in milliseconds. */
  latenciesMs: number[];
  /** Responses other than 2xx. */
  failed: number;
}

/**
 * Sends requests over a fixed number of keep-alive connections, one at a time on each, as fast as they are answered unless `pauseMs` is given. Reads responses
 * by their `content-length`, because a client that parses everything would cost more than the measured server.
 */
export async function runLoad({ port, request, connections, durationMs, pauseMs = 0 }: Load): Promise<LoadResult> {
  const result: LoadResult = { requests: 0, requestsPerS: 0, latenciesMs: [], failed: 0 };
  const start = performance.now();
  const end = start + durationMs;
  await Promise.all(Array.from({ length: connections }, () => askUntil(end, { port, request, pauseMs, result })));
  result.requestsPerS = (result.requests / (performance.now() - start)) * 1_000;
  return result;
}

/** A server that is silent for this long is broken, not slow. */
const answerTimeoutMs = 30_000;

type Asking = Pick<Load, "port" | "request"> & { pauseMs: number; result: LoadResult };

async function askUntil(end: number, { port, request, pauseMs, result }: Asking): Promise<void> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  await once(socket, "connect");
  socket.setTimeout(answerTimeoutMs, () => socket.destroy());
  while (performance.now() < end) {
    const text = typeof request === "string" ? request : request();
    const sentAt = performance.now();
    socket.write(text);
    const status = await readAnswer(socket);
    result.latenciesMs.push(performance.now() - sentAt);
    result.requests += 1;
    if (status < 200 || status > 299) result.failed += 1;
    if (pauseMs > 0) await sleep(pauseMs);
  }
  socket.destroy();
}

function readAnswer(socket: Socket): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = "";
    const done = (settle: () => void) => {
      socket.off("data", onData).off("close", onClose).off("error", onClose);
      settle();
    };
    const onData = (chunk: Buffer) => {
      text += chunk.toString("latin1");
      if (isWhole(text)) done(() => resolve(Number(text.slice(9, 12))));
    };
    const onClose = () => done(() => reject(new Error(`connection closed within an answer: ${text.slice(0, 200)}`)));
    socket.on("data", onData).on("close", onClose).on("error", onClose);
  });
}

function isWhole(text: string): boolean {
  const head = text.indexOf("\r\n\r\n");
  if (head === -1) return false;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head));
  if (length === null) throw new Error("the load loop reads answers with a content-length only");
  return text.length - head - 4 >= Number(length[1]);
}
