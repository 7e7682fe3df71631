import { type IncomingMessage, type RequestOptions, request as requestPlain } from "node:http";
import { request as requestTls } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { JsonBounds } from "../base/json-bounds.ts";
import { isLoopbackAddress, PrivateAddressError, resolveHost, resolvePublicHost } from "./outbound-address.ts";
import { openSliced } from "./sliced-connection.ts";

export interface OutboundPolicy {
  /** Whether addresses of this machine and its networks may be called (`PIERHEAD_ALLOW_PRIVATE_NETWORK`). */
  allowPrivateNetwork: boolean;
  /** Whether unencrypted `http:` is allowed. `loopback` allows it only to this machine, if private networks are allowed. */
  plainHttp: "loopback" | "anywhere";
  /** Time limit of lookup, connection and response together. */
  timeoutMs: number;
  /** Limit of the response. */
  bytesMax: number;
  /** Truncates a larger response instead of rejecting it. */
  cuts?: boolean;
  /** Limit of the values of a response that the caller parses, as JSON or as a form: bytes alone do not bound the time of a parser. */
  valuesMax?: number;
}

export interface OutboundRequest {
  method?: string | undefined;
  headers?: Record<string, string> | undefined;
  body?: string | Uint8Array | null | undefined;
  signal?: AbortSignal | undefined;
}

/** Failure of a call to a user's URL. The message contains only the host, because paths and queries may contain secrets. */
export class OutboundFailure extends Error {
  override readonly name = "OutboundFailure";
  readonly reason: "refused" | "unreachable" | "timeout" | "too large" | "cancelled";

  constructor(reason: OutboundFailure["reason"], message: string) {
    super(message);
    this.reason = reason;
  }
}

/**
 * Calls a URL from a user, or from a server that a user chose. It resolves the name once, checks every address, and connects only to
 * the checked addresses. It follows no redirect, uses no proxy, unpacks no compressed response, and limits time and size.
 * @throws OutboundFailure
 */
export async function fetchOutward(address: string, asked: OutboundRequest, policy: OutboundPolicy): Promise<Response> {
  const url = readUrl(address);
  const deadline = AbortSignal.timeout(policy.timeoutMs);
  const signal = asked.signal == null ? deadline : AbortSignal.any([deadline, asked.signal]);
  try {
    const addresses = await abortable(resolveChecked(url, policy), signal);
    const answer = await send(url, addresses, asked, signal);
    return await readAnswer(answer, url, policy, signal);
  } catch (error) {
    if (error instanceof OutboundFailure) throw error;
    if (deadline.aborted) throw new OutboundFailure("timeout", `${url.host} took longer than ${policy.timeoutMs} ms.`);
    if (signal.aborted) throw new OutboundFailure("cancelled", `The call to ${url.host} was cancelled.`);
    const { code } = error as NodeJS.ErrnoException;
    throw new OutboundFailure("unreachable", `${url.host} cannot be reached (${code ?? "connection failed"}).`);
  }
}

function readUrl(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol) || url.username !== "" || url.password !== "") {
    throw new OutboundFailure("refused", "Only http and https addresses without a user name can be called.");
  }
  return url;
}

async function resolveChecked(url: URL, policy: OutboundPolicy): Promise<string[]> {
  try {
    const addresses = await (policy.allowPrivateNetwork ? resolveHost : resolvePublicHost)(url.hostname);
    if (url.protocol === "http:" && policy.plainHttp === "loopback" && !addresses.every(isLoopbackAddress)) {
      throw new OutboundFailure("refused", `${url.host} must be called with https.`);
    }
    return addresses;
  } catch (error) {
    if (error instanceof PrivateAddressError) throw new OutboundFailure("refused", error.message);
    if (error instanceof OutboundFailure) throw error;
    throw new OutboundFailure("unreachable", `${url.hostname} does not resolve to an address.`);
  }
}

/**
 * Interim answers (1xx) before the answer. Receivers of webhooks of one workspace that sent them without end made requests of another one
 * wait for 19 s.
 */
const interimMax = 100;

function send(url: URL, addresses: string[], asked: OutboundRequest, signal: AbortSignal): Promise<IncomingMessage> {
  const body = asked.body == null ? undefined : Buffer.from(asked.body);
  const checked: LookupFunction = (_host, options, done) => {
    const found = addresses.map((address) => ({ address, family: isIP(address) }));
    const [first] = found;
    if (options.all === true || first === undefined) done(null, found);
    else done(null, first.address, first.family);
  };
  const isTls = url.protocol === "https:";
  const defaultPort = isTls ? 443 : 80;
  const port = Number(url.port || defaultPort);
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const servername = isIP(host) === 0 ? host : "";
  const options: RequestOptions = {
    method: asked.method ?? "GET",
    headers: {
      "user-agent": "pierhead",
      ...asked.headers,
      "accept-encoding": "identity",
      ...(body !== undefined && { "content-length": String(body.length) }),
    },
    // A new connection for each call, because the check of a reused one may be outdated.
    createConnection: () => openSliced({ host, port, lookup: checked, tls: isTls ? { servername } : null }),
    defaultPort,
    signal,
  };
  return new Promise((resolve, reject) => {
    const request = (isTls ? requestTls : requestPlain)(url, options, resolve);
    request.once("error", reject);
    let interim = 0;
    request.on("information", () => {
      interim += 1;
      if (interim <= interimMax) return;
      request.destroy(new OutboundFailure("unreachable", `${url.host} sent more than ${interimMax} interim answers.`));
    });
    // The call requested no upgrade. Without this handler the connection would end without an error, and without the deadline.
    request.once("upgrade", ({ statusCode = 101 }, socket) => {
      socket.destroy();
      reject(wrongStatus(url, statusCode));
    });
    request.end(body);
  });
}

async function readAnswer(
  answer: IncomingMessage,
  url: URL,
  { bytesMax, cuts = false, valuesMax = Number.POSITIVE_INFINITY }: OutboundPolicy,
  signal: AbortSignal,
): Promise<Response> {
  const bounds = valuesMax === Number.POSITIVE_INFINITY ? null : new JsonBounds({ valuesMax, depthMax: levelsMax });
  const parts: Buffer[] = [];
  let bytes = 0;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const tooLarge = (what: string) => reject(new OutboundFailure("too large", `The answer of ${url.host} ${what}.`));
  answer.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    parts.push(chunk);
    if (bytes > bytesMax && cuts) resolve();
    else if (bytes > bytesMax) tooLarge(`is larger than ${bytesMax} bytes`);
    else if (bounds !== null && bounds.scan(chunk) !== null)
      tooLarge(`has more than ${valuesMax} values or ${levelsMax} levels`);
    else if (parts.length > tinyPartsMax && bytes < parts.length * tinyBytes) tooLarge("has too many small parts");
    else return;
    // Not only the promise: the parser has more of what arrived with this chunk.
    answer.destroy();
  });
  answer.once("end", resolve).on("error", reject);
  answer.once("close", () => reject(new Error("the connection was closed")));
  const stop = () => answer.destroy(new Error("aborted"));
  signal.addEventListener("abort", stop, { once: true });
  try {
    await promise;
  } finally {
    signal.removeEventListener("abort", stop);
    answer.destroy();
    // Also after a whole answer: a server that keeps its half open would hold the connection until the deadline.
    answer.socket.destroy();
  }
  return responseOf(answer, Buffer.concat(parts).subarray(0, bytesMax), url);
}

/** Parts of an answer from which on they must have some bytes each. The parser takes as long for one of a byte as for one of a kilobyte. */
const tinyPartsMax = 256;
const tinyBytes = 16;

/** Levels of a response that the caller parses. */
const levelsMax = 100;

/** Statuses for which a `Response` must not have a body. */
const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);

function responseOf({ statusCode = 0, rawHeaders }: IncomingMessage, body: Buffer, url: URL): Response {
  if (statusCode < 200 || statusCode > 599) {
    throw wrongStatus(url, statusCode);
  }
  const headers = new Headers();
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    try {
      headers.append(rawHeaders[index] as string, rawHeaders[index + 1] as string);
    } catch {
      // Skip an invalid header, because no caller needs one.
    }
  }
  return new Response(bodiless.has(statusCode) ? null : new Uint8Array(body), { status: statusCode, headers });
}

const wrongStatus = (url: URL, statusCode: number) =>
  new OutboundFailure("unreachable", `${url.host} answered with status ${statusCode}.`);

/** Stops waiting for a promise when the signal is aborted. A name lookup itself cannot be cancelled. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
