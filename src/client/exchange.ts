import { backoffMs, withJitter } from "../base/backoff.ts";
import { pause } from "../base/pause.ts";
import type { ErrorCode, ValidationItem } from "../contract/error.ts";
import { rememberTag } from "./etags.ts";
import { ApiFailure, isPassing, ServerUnreachable } from "./failure.ts";

/** Trace of one request and its response, for displaying or counting calls. Never contains the key. */
export interface CallTrace {
  verb: string;
  /** Without the query of signed URLs. */
  url: string;
  /** The JSON body, which may contain secrets of deployments. */
  body: unknown;
  /** 1 for the first attempt. */
  attempt: number;
  /** Null: there was no response. */
  status: number | null;
  durationMs: number;
  requestId: string | null;
}

export interface Exchange {
  verb: string;
  url: string;
  /** URL for traces and errors. */
  shownUrl: string;
  headers: Record<string, string>;
  /** A value to send as JSON, or bytes to send unchanged. */
  body: { json: unknown } | { blob: Blob } | null;
  /** Deadline of all attempts together. */
  deadlineMs: number;
  signal: AbortSignal | undefined;
}

/** Part of `fetch` that calls need when their response is read as a whole. */
export type SendOnce = (
  url: string,
  request: {
    method: string;
    headers: Record<string, string>;
    body?: string | Blob;
    redirect: "manual";
    signal: AbortSignal;
  },
) => Promise<Answer>;

export type Answer = Pick<Response, "ok" | "status" | "statusText" | "text"> & { headers: Pick<Headers, "get"> };

export interface Transport {
  fetch: typeof fetch;
  /** For everything except streams. */
  send: SendOnce;
  onCall: ((call: CallTrace) => void) | undefined;
}

/** The first pause is 0.2 s, then doubled: 0.2 + 0.4 + 0.8 s outlast a restart of the server's listening socket. */
const attemptsMax = 4;
const retryBounds = { firstMs: 200, maxMs: 1_000 };

/**
 * Sends one request and retries it after transport errors, 429 and 5xx. Sending it twice must be safe. `Retry-After` is
 * obeyed within the deadline. A failure that took the server longer than what is left is not retried: its answer would come too late,
 * and say less than this one.
 *
 * @returns The parsed JSON of a 2xx answer; undefined when its body is empty.
 * @throws ApiFailure, ServerUnreachable; the signal's reason when it was aborted.
 */
export async function exchange(transport: Transport, request: Exchange): Promise<unknown> {
  const deadlineAt = performance.now() + request.deadlineMs;
  for (let attempt = 1; ; attempt += 1) {
    request.signal?.throwIfAborted();
    const startedAt = performance.now();
    const answer = await attemptOnce(transport, request, attempt, deadlineAt);
    if ("value" in answer) return answer.value;
    const { failure, retryAfterMs } = answer;
    const pauseMs = retryAfterMs ?? withJitter(backoffMs(attempt, retryBounds));
    const neededMs = failure instanceof ApiFailure ? performance.now() - startedAt : 0;
    const isTooLate = performance.now() + pauseMs + neededMs >= deadlineAt;
    if (!isPassing(failure) || attempt === attemptsMax || isTooLate) throw failure;
    await pause(pauseMs, request.signal);
  }
}

/** Deadline for the head of the response. The stream itself may last longer. */
const headDeadlineMsDefault = 15_000;

export interface StreamRequest {
  url: string;
  headers: Record<string, string>;
  /** Expected content type. */
  accept: string;
  signal: AbortSignal;
  headDeadlineMs?: number;
}

/**
 * Opens a response of a content type that is read as a stream. Does not retry.
 * @throws ApiFailure when the server answers with another content type; ServerUnreachable; the signal's reason.
 */
export async function openStream(
  transport: Transport,
  { url, headers, accept, signal, headDeadlineMs = headDeadlineMsDefault }: StreamRequest,
): Promise<Response> {
  const request = { verb: "GET", shownUrl: url };
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), headDeadlineMs);
  const startedAt = performance.now();
  const trace = (status: number | null, requestId: string | null) =>
    transport.onCall?.({
      verb: "GET",
      url,
      body: null,
      attempt: 1,
      status,
      requestId,
      durationMs: Math.round(performance.now() - startedAt),
    });
  try {
    const response = await transport.fetch(url, {
      headers: { ...headers, accept },
      redirect: "manual",
      signal: AbortSignal.any([signal, late.signal]),
    });
    const requestId = response.headers.get("x-request-id");
    trace(response.status, requestId);
    if (response.headers.get("content-type")?.startsWith(accept) && response.ok) return response;
    const answer = readAnswer(request, response, await response.text(), requestId);
    throw "failure" in answer ? answer.failure : notAStream(request, accept, requestId);
  } catch (error) {
    if (error instanceof ApiFailure) throw error;
    signal.throwIfAborted();
    trace(null, null);
    const because = late.signal.aborted ? `later than ${headDeadlineMs / 1000} s` : reasonOf(error);
    throw new ServerUnreachable(new URL(url).origin, because, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

function notAStream(
  request: Pick<Exchange, "verb" | "shownUrl">,
  accept: string,
  requestId: string | null,
): ApiFailure {
  const call = `${request.verb} ${new URL(request.shownUrl).pathname}`;
  return new ApiFailure({
    status: 406,
    code: null,
    detail: `The server does not answer with ${accept}.`,
    items: null,
    requestId,
    call,
  });
}

type Attempt = { value: unknown } | { failure: ApiFailure | ServerUnreachable; retryAfterMs: number | null };

async function attemptOnce(
  transport: Transport,
  request: Exchange,
  attempt: number,
  deadlineAt: number,
): Promise<Attempt> {
  const { verb, shownUrl } = request;
  const startedAt = performance.now();
  const deadline = AbortSignal.timeout(Math.max(1, Math.ceil(deadlineAt - startedAt)));
  const signal = request.signal === undefined ? deadline : AbortSignal.any([request.signal, deadline]);
  const trace = (status: number | null, requestId: string | null) => {
    const body = request.body !== null && "json" in request.body ? request.body.json : null;
    transport.onCall?.({
      verb,
      url: shownUrl,
      body,
      attempt,
      status,
      durationMs: Math.round(performance.now() - startedAt),
      requestId,
    });
  };
  try {
    const response = await transport.send(request.url, {
      method: verb,
      headers: request.headers,
      redirect: "manual",
      signal,
      ...(request.body === null
        ? {}
        : { body: "json" in request.body ? JSON.stringify(request.body.json) : request.body.blob }),
    });
    const text = await response.text();
    const requestId = response.headers.get("x-request-id");
    trace(response.status, requestId);
    return readAnswer(request, response, text, requestId);
  } catch (error) {
    trace(null, null);
    if (request.signal?.aborted) throw request.signal.reason;
    const because = deadline.aborted ? `later than ${request.deadlineMs / 1000} s` : reasonOf(error);
    return { failure: new ServerUnreachable(new URL(shownUrl).origin, because, { cause: error }), retryAfterMs: null };
  }
}

function readAnswer(
  request: Pick<Exchange, "verb" | "shownUrl">,
  response: Answer,
  text: string,
  requestId: string | null,
): Attempt {
  const body = parse(text);
  if (response.ok && body !== notJson) {
    rememberTag(body, response.headers.get("etag"));
    return { value: body };
  }
  const call = `${request.verb} ${new URL(request.shownUrl).pathname}`;
  const { detail, items } = explainAnswer(response, body);
  const status = response.ok || response.status < 400 ? 502 : response.status;
  const code = response.headers.get("x-pierhead-error") as ErrorCode | null;
  const failure = new ApiFailure({ status, code, detail, items, requestId, call });
  return { failure, retryAfterMs: retryAfterMs(response) };
}

const notJson = Symbol("not JSON");

function parse(text: string): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return notJson;
  }
}

function explainAnswer(response: Answer, body: unknown): Pick<ApiFailure, "detail" | "items"> {
  const { detail } = typeof body === "object" && body !== null ? (body as { detail?: unknown }) : {};
  if (typeof detail === "string") {
    const hint = response.headers.get("x-pierhead-hint");
    return { detail: hint === null ? detail : `${detail}. ${hint}`, items: null };
  }
  if (Array.isArray(detail)) {
    const items = detail as ValidationItem[];
    return { detail: items.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; "), items };
  }
  const location = response.headers.get("location");
  if (location !== null) return { detail: `The address redirects to ${location}. Use that one.`, items: null };
  // The response comes from a proxy, a wrong path, or another program on that port.
  const what = response.status < 400 ? "not with this API's JSON" : `${response.status} ${response.statusText}`.trim();
  return { detail: `The address answered ${what}. Is it the address of a Pierhead server?`, items: null };
}

/** Returns the pause of `Retry-After`, which is in seconds or a date (RFC 9110 10.2.3). */
function retryAfterMs(response: Answer): number | null {
  const value = response.headers.get("retry-after");
  if (value === null) return null;
  const seconds = Number(value);
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(value) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : null;
}

/** Returns the message of the innermost cause, because `fetch failed` says nothing: `connect ECONNREFUSED 127.0.0.1:8124`. */
function reasonOf(error: unknown): string {
  let innermost = error;
  while (innermost instanceof Error && innermost.cause !== undefined) innermost = innermost.cause;
  if (innermost instanceof AggregateError && innermost.errors[0] instanceof Error) innermost = innermost.errors[0];
  return innermost instanceof Error ? innermost.message : String(innermost);
}
