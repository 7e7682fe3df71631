import { EventEmitter } from "node:events";
import type { IncomingMessage, OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";

export interface InProcessCall {
  method: string;
  path: string;
  headers: Readonly<Record<string, string | undefined>>;
  /** JSON text; absent: a request without a body. */
  body?: string | undefined;
  /** Of whoever is asked for, as the API notes it. */
  address: string;
  signal: AbortSignal;
}

/**
 * Asks the API of this process over the same routes, hooks and checks as over HTTP, without a socket. Every start of a
 * replica asks for its variables this way, so it is lean: no bytes are made of an answer's text, and no header is written
 * and read again (decision 0048).
 * @throws the reason of `signal`; Error when the API broke the answer off.
 */
export function callInProcess(
  api: Pick<FastifyInstance, "routing">,
  call: InProcessCall,
): Promise<{ status: number; text: string }> {
  const { signal } = call;
  if (signal.aborted) return Promise.reject(signal.reason);
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const request = new CallRequest(call);
  const response = new CallResponse();
  const leave = () => {
    reject(signal.reason);
    request.destroy();
    response.destroy();
  };
  signal.addEventListener("abort", leave);
  response.once("close", () => {
    signal.removeEventListener("abort", leave);
    const { statusCode: status, text, writableEnded } = response;
    if (writableEnded) resolve({ status, text });
    else reject(new Error("the API broke its answer off"));
  });
  api.routing(request as unknown as IncomingMessage, response as unknown as ServerResponse);
  return promise;
}

/** What the API reads of an `IncomingMessage`. */
class CallRequest extends Readable {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string> = { host: "localhost" };
  readonly socket: { remoteAddress: string };
  readonly httpVersionMajor = 1;
  readonly #body: string | undefined;

  constructor({ method, path, headers, body, address }: InProcessCall) {
    // A request whose body was read is still under way.
    super({ autoDestroy: false });
    this.method = method;
    this.url = path;
    this.socket = { remoteAddress: address };
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined) this.headers[name.toLowerCase()] = value;
    }
    if (body !== undefined) this.headers["content-type"] = "application/json";
    this.#body = body;
  }

  override _read(): void {
    if (this.#body !== undefined) this.push(this.#body);
    this.push(null);
  }
}

/** What the API asks of a `ServerResponse`. What is written is kept as text: bytes must come in whole characters. */
class CallResponse extends EventEmitter {
  statusCode = 200;
  headersSent = false;
  writableEnded = false;
  destroyed = false;
  text = "";
  readonly #headers = new Map<string, OutgoingHttpHeader>();

  getHeader(name: string): OutgoingHttpHeader | undefined {
    return this.#headers.get(name.toLowerCase());
  }

  getHeaders(): OutgoingHttpHeaders {
    return Object.fromEntries(this.#headers);
  }

  hasHeader(name: string): boolean {
    return this.#headers.has(name.toLowerCase());
  }

  setHeader(name: string, value: OutgoingHttpHeader): this {
    this.#headers.set(name.toLowerCase(), value);
    return this;
  }

  removeHeader(name: string): void {
    this.#headers.delete(name.toLowerCase());
  }

  writeHead(status: number, headers: OutgoingHttpHeaders = {}): this {
    this.statusCode = status;
    this.headersSent = true;
    for (const [name, value] of Object.entries(headers)) if (value !== undefined) this.setHeader(name, value);
    return this;
  }

  write(chunk: string | Buffer): boolean {
    this.headersSent = true;
    this.text += chunk.toString();
    return true;
  }

  end(chunk?: string | Buffer | null): this {
    if (this.writableEnded || this.destroyed) return this;
    if (chunk) this.write(chunk);
    this.headersSent = true;
    this.writableEnded = true;
    // As with a socket: who ends an answer goes on before anybody hears of it.
    process.nextTick(() => {
      this.emit("finish");
      this.destroy();
    });
    return this;
  }

  destroy(): this {
    if (this.destroyed) return this;
    this.destroyed = true;
    this.emit("close");
    return this;
  }
}
