import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import type { FuzzRequest } from "./requests.ts";

export interface Answer {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
  /** Whether the response is endless: only its head was read. */
  isEndless: boolean;
}

/** Time after which a missing response counts as a failure: the server's longest wait is 30 s. */
const answerTimeoutMs = 60_000;
const agent = new Agent({ keepAlive: true, maxSockets: 64 });

/**
 * Sends a request. Retries once when a kept-alive connection closed while this request was sent, which the protocol
 * allows (RFC 9112, section 9.3.1).
 * @returns undefined without a response, because the server or the request closed the connection.
 */
export async function exchange(origin: URL, wanted: FuzzRequest, isAgain = false): Promise<Answer | undefined> {
  const isPlain = /^[\x21-\x7e]+$/.test(wanted.path) && plainVerbs.has(wanted.verb);
  if (!isPlain || wanted.transport === "raw") return rawExchange(origin, wanted);
  return new Promise((resolve, reject) => {
    const { verb: method, path, transport } = wanted;
    const body = wanted.body === null ? null : Buffer.from(wanted.body);
    const headers = { ...wanted.headers, ...framing(body, transport) };
    const sent = httpRequest({ host: origin.hostname, port: origin.port, agent, method, path, headers });
    const late = setTimeout(() => sent.destroy(new Error(`no answer within ${answerTimeoutMs} ms`)), answerTimeoutMs);
    sent.once("response", (response) => {
      readAnswer(response)
        .then(resolve, reject)
        .finally(() => clearTimeout(late));
    });
    sent.once("error", (error) => {
      clearTimeout(late);
      // The server closes the connection of a client that breaks off, or that sends more than the server reads.
      const isBroken = transport === "cut" || transport === "lying";
      if (isBroken || (body?.length ?? 0) > 1_000_000) resolve(undefined);
      else if (sent.reusedSocket && !isAgain) exchange(origin, wanted, true).then(resolve, reject);
      else reject(error);
    });
    write(sent, body, transport);
  });
}

const plainVerbs: ReadonlySet<string> = new Set(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"]);

function framing(body: Buffer | null, transport: FuzzRequest["transport"]): Record<string, string> {
  if (transport === "chunked") return { "transfer-encoding": "chunked" };
  const length = body?.length ?? 0;
  if (body === null) return {};
  return { "content-length": String(transport === "lying" ? length + 10 : length) };
}

function write(sent: ReturnType<typeof httpRequest>, body: Buffer | null, transport: FuzzRequest["transport"]): void {
  if (body === null) return void sent.end();
  const half = Math.floor(body.length / 2);
  switch (transport) {
    case "chunked":
      sent.write(body.subarray(0, half));
      return void setImmediate(() => sent.end(body.subarray(half)));
    case "cut":
    case "lying":
      sent.write(body.subarray(0, transport === "cut" ? half : body.length));
      // Unref'ed, so that an aborted request does not delay the end of the run.
      setTimeout(() => sent.destroy(), 20).unref();
      return;
    default:
      sent.end(body);
  }
}

async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const headers = Object.fromEntries(Object.entries(response.headers).map(([name, value]) => [name, String(value)]));
  const head = { status: response.statusCode ?? 0, headers };
  if (headers["content-type"]?.startsWith("text/event-stream")) {
    response.destroy();
    return { ...head, body: Buffer.alloc(0), isEndless: true };
  }
  const pieces: Buffer[] = [];
  for await (const piece of response) pieces.push(piece as Buffer);
  return { ...head, body: Buffer.concat(pieces), isEndless: false };
}

/** Sends the bytes as they are on a separate connection: a client library would correct or refuse them. */
function rawExchange(origin: URL, { verb, path, headers, body }: FuzzRequest): Promise<Answer | undefined> {
  const sent = body === null ? {} : { "content-length": String(Buffer.byteLength(body)) };
  const lines = Object.entries({ host: origin.host, ...headers, ...sent, connection: "close" });
  const head = `${verb} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
  return new Promise((resolve, reject) => {
    const socket = connect(Number(origin.port), origin.hostname, () => {
      socket.write(Buffer.from(head, "latin1"));
      if (body !== null) socket.write(body);
    });
    socket.setTimeout(answerTimeoutMs, () => socket.destroy(new Error(`no answer within ${answerTimeoutMs} ms`)));
    const pieces: Buffer[] = [];
    socket.on("data", (piece: Buffer) => {
      pieces.push(piece);
      if (/\r\ncontent-type: text\/event-stream/i.test(piece.toString("latin1"))) socket.end();
    });
    socket.once("close", () => resolve(parseAnswer(Buffer.concat(pieces))));
    socket.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNRESET" || error.code === "EPIPE") resolve(parseAnswer(Buffer.concat(pieces)));
      else reject(error);
    });
  });
}

function parseAnswer(bytes: Buffer): Answer | undefined {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const [first = "", ...lines] = bytes.subarray(0, end).toString("latin1").split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  const rest = bytes.subarray(end + 4);
  const isEndless = headers["content-type"]?.startsWith("text/event-stream") === true;
  const body = isEndless ? Buffer.alloc(0) : headers["transfer-encoding"] === "chunked" ? joinChunks(rest) : rest;
  return { status: Number(first.split(" ")[1]), headers, body, isEndless };
}

function joinChunks(bytes: Buffer): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; ; ) {
    const line = bytes.indexOf("\r\n", at);
    const size = Number.parseInt(bytes.subarray(at, line).toString("latin1"), 16);
    if (line < 0 || !(size > 0)) return Buffer.concat(pieces);
    pieces.push(bytes.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
  }
}
