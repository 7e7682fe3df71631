import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request } from "node:http";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { awaitUpgrade } from "../../../base/await-upgrade.ts";
import { readText, TooLongError } from "../../../base/read-text.ts";
import { jsonValues } from "./streams.ts";

/** An error answer of the engine. Its message is fit for users: it names the image, port or path. */
export class EngineError extends Error {
  override name = "EngineError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The engine did not answer, or not as a container engine does. */
export class EngineUnreachable extends Error {
  override name = "EngineUnreachable";
}

/** The answer of the engine exceeds the limit of the call. */
export class AnswerTooLong extends Error {
  override name = "AnswerTooLong";
}

export interface EngineCall {
  query?: Record<string, string | number | boolean | object | undefined>;
  /** Sent as JSON, unless it is a stream. */
  body?: object | Readable;
  headers?: OutgoingHttpHeaders;
  signal?: AbortSignal;
  /** Default 30 s. */
  timeoutMs?: number;
  /** Longest accepted JSON answer. Default: none. Set it where users decide about the size. */
  answerBytesMax?: number;
}

/** Supported versions 1.x. 1.41 (Docker 20.10) has all we need. Newer engines refuse old versions, so we use theirs, up to the maximum. */
const minorVersions = { min: 41, max: 51 };

const callTimeoutMs = 30_000;

/**
 * Client for the Engine API of Docker (and of Podman, which implements it, too) over a socket or TCP. Dates, ids and bodies
 * are the engine's own; see https://docs.docker.com/reference/api/engine/.
 */
export class Engine {
  readonly host: string;
  readonly #target: { socketPath: string } | { host: string; port: number };
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16, timeout: 60_000 });
  /** Stopping a server may take minutes, so such calls get connections of their own and do not delay quick calls. */
  readonly #slowCallAgent = new Agent();
  readonly #life = new AbortController();
  #version = "";

  /** @throws Error when `host` is neither `unix:///path` nor `tcp://host:port`. */
  constructor(host: string) {
    this.host = host;
    this.#target = parseHost(host);
  }

  /** Negotiates the API version. @throws EngineUnreachable when there is no answer; Error when the engine is too old. */
  async open(signal?: AbortSignal): Promise<this> {
    const answer = await this.#send("GET", "/_ping", { timeoutMs: 5_000, ...(signal === undefined ? {} : { signal }) });
    answer.resume();
    const [, minor] = /^1\.(\d+)$/.exec(String(answer.headers["api-version"])) ?? [];
    if (minor === undefined || Number(minor) < minorVersions.min) {
      throw new Error(`the container engine at ${this.host} is too old: Pierhead needs Docker 20.10 or newer`);
    }
    this.#version = `/v1.${Math.min(Number(minor), minorVersions.max)}`;
    return this;
  }

  /** Sends one call and returns its JSON answer. @throws EngineError, EngineUnreachable, AnswerTooLong, or the reason of the signal. */
  async call<T = unknown>(method: string, path: string, options: EngineCall = {}): Promise<T> {
    const agent = mayTakeLong(options) ? this.#slowCallAgent : this.#agent;
    const answer = await this.#request(method, path, options, agent);
    const text = await readText(answer, options.answerBytesMax).catch((error: Error) => {
      if (error instanceof TooLongError) throw new AnswerTooLong(error.message, { cause: error });
      throw this.#connectionLost(error, options);
    });
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** Like `call`, but returns undefined when the status is one of `unless`, for objects that may be gone or done already. */
  async callUnless<T = unknown>(
    unless: number[],
    method: string,
    path: string,
    options: EngineCall = {},
  ): Promise<T | undefined> {
    try {
      return await this.call<T>(method, path, options);
    } catch (error) {
      if (error instanceof EngineError && unless.includes(error.status)) return undefined;
      throw error;
    }
  }

  /** Returns a streaming answer on a connection of its own. */
  async stream(method: string, path: string, options: EngineCall = {}): Promise<IncomingMessage> {
    return this.#request(method, path, { timeoutMs: 0, ...options }, false);
  }

  /**
   * Starts a call whose connection then carries raw bytes in both directions. Both sides can end theirs.
   * @throws as `call`
   */
  async hijack(path: string, body: object): Promise<Socket> {
    const payload = JSON.stringify(body);
    const sent = request({
      ...this.#target,
      method: "POST",
      path: this.#version + path,
      agent: false,
      headers: {
        ...{ host: "engine", "content-type": "application/json", "content-length": Buffer.byteLength(payload) },
        ...{ connection: "Upgrade", upgrade: "tcp" },
      },
    });
    sent.end(payload);
    const failed = (error: Error) => this.#unreachable(error);
    const { socket } = await awaitUpgrade(sent, { timeoutMs: callTimeoutMs, refused: refusal, failed });
    return socket;
  }

  /** Yields the JSON values of a streaming answer. */
  async *values<T>(method: string, path: string, options: EngineCall = {}): AsyncGenerator<T> {
    const answer = await this.stream(method, path, options);
    try {
      yield* jsonValues<T>(answer);
    } catch (error) {
      throw this.#connectionLost(error as Error, options);
    }
  }

  /** Aborts calls in progress and refuses new ones. */
  close(): void {
    this.#life.abort(new EngineUnreachable(`the client of the container engine at ${this.host} is closed`));
    this.#agent.destroy();
    this.#slowCallAgent.destroy();
  }

  /** Negotiates the version again when the engine refuses ours, for example because it was upgraded. */
  async #request(method: string, path: string, call: EngineCall, agent: Agent | false) {
    const version = this.#version;
    try {
      return await this.#send(method, version + path, call, agent);
    } catch (error) {
      if (!(error instanceof EngineError && versionRefusal.test(error.message))) throw error;
      if (this.#version === version) await this.open(call.signal);
      // A streamed body is used up: the caller must retry with a new one.
      if (this.#version === version || isStream(call.body)) throw error;
      return this.#send(method, this.#version + path, call, agent);
    }
  }

  async #send(method: string, path: string, call: EngineCall, agent: Agent | false = this.#agent) {
    const { body, timeoutMs = callTimeoutMs } = call;
    const payload = body === undefined || isStream(body) ? "" : JSON.stringify(body);
    const type = isStream(body) ? { "content-type": "application/x-tar" } : { "content-type": "application/json" };
    const length = isStream(body) ? {} : { "content-length": Buffer.byteLength(payload) };
    const deadline = timeoutMs > 0 ? [AbortSignal.timeout(timeoutMs)] : [];
    const asked = call.signal === undefined ? [] : [call.signal];
    const signal = AbortSignal.any([this.#life.signal, ...asked, ...deadline]);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const sent = request({
      ...this.#target,
      method,
      path: path + queryText(call.query),
      agent,
      signal,
      headers: { host: "engine", ...(body === undefined ? {} : type), ...length, ...call.headers },
    });
    sent.on("response", resolve);
    sent.on("error", (error) => reject(signal.aborted ? signal.reason : this.#unreachable(error)));
    if (isStream(body)) {
      // A body that cannot be read is not the engine's fault.
      body.on("error", (error) => {
        reject(error);
        sent.destroy();
      });
      body.pipe(sent);
    } else sent.end(payload);
    const answer = await promise;
    if ((answer.statusCode ?? 500) >= 400) throw await refusal(answer);
    return answer;
  }

  /** Turns a broken connection into EngineUnreachable. The socket error itself says no more than `aborted`. */
  #connectionLost(error: NodeJS.ErrnoException, { signal }: EngineCall): Error {
    if (signal?.aborted) return signal.reason;
    if (error.code !== "ECONNRESET") return error;
    return new EngineUnreachable(`the container engine at ${this.host} closed the connection during its answer`, {
      cause: error,
    });
  }

  #unreachable(error: NodeJS.ErrnoException): Error {
    const why = error.code === "ENOENT" ? "there is no such socket" : error.message;
    return new EngineUnreachable(`the container engine at ${this.host} cannot be reached: ${why}`, { cause: error });
  }
}

const isStream = (body: EngineCall["body"]): body is Readable => body !== undefined && "pipe" in body;

/** "client version 1.43 is too old. Minimum supported API version is 1.44, ..." and, after a downgrade, "too new". */
const versionRefusal = /client version \S+ is too (old|new)/;

const mayTakeLong = ({ timeoutMs = callTimeoutMs }: EngineCall) => timeoutMs === 0 || timeoutMs > callTimeoutMs;

function parseHost(host: string): { socketPath: string } | { host: string; port: number } {
  if (host.startsWith("unix:///")) return { socketPath: host.slice("unix://".length) };
  const [, name, port] = /^tcp:\/\/([^/:]+):(\d+)\/?$/.exec(host) ?? [];
  if (name === undefined)
    throw new Error(`'${host}' is not a container engine: use unix:///path/to/socket or tcp://host:port`);
  return { host: name, port: Number(port) };
}

function queryText(query: EngineCall["query"] = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) given.set(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  return given.size === 0 ? "" : `?${given}`;
}

async function refusal(answer: IncomingMessage): Promise<EngineError> {
  const text = await readText(answer);
  let message = text.trim();
  try {
    message = (JSON.parse(text) as { message?: string }).message ?? message;
  } catch {
    // the answer is plain text
  }
  return new EngineError(answer.statusCode ?? 500, message);
}
