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
  /** Client address that the API logs and audits. */
  address: string;
  signal: AbortSignal;
}

/**
 * Calls the API of this process through the same routes, hooks and checks as HTTP, without a socket. Each replica start
 * fetches its variables this way. Fastify's `inject` would encode, copy and decode each response (decision 0048).
 * Bench line: "memory of a control plane with 10000 settled deployments" in bench/results.md.
 * @throws the reason of `signal`; Error when the API ended the response early.
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

/** The part of `IncomingMessage` that the API reads. */
class CallRequest extends Readable {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string> = { host: "localhost" };
  readonly socket: { remoteAddress: string };
  readonly httpVersionMajor = 1;
  readonly #body: Buffer | undefined;

  constructor({ method, path, headers, body, address }: InProcessCall) {
    // Without autoDestroy: the request stays open after its body was read, until the response ends.
    super({ autoDestroy: false });
    this.method = method;
    this.url = path;
    this.socket = { remoteAddress: address };
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined) this.headers[name.toLowerCase()] = value;
    }
    this.#body = body === undefined ? undefined : Buffer.from(body);
    if (this.#body === undefined) return;
    this.headers["content-type"] = "application/json";
    this.headers["content-length"] = String(this.#body.length);
  }

  override _read(): void {
    if (this.#body !== undefined) this.push(this.#body);
    this.push(null);
  }
}

/** The part of `ServerResponse` that the API uses. Collects the body as text, so each written chunk must hold whole characters. */
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
    // On the next tick, as with a socket: the caller of `end` continues before listeners run.
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
