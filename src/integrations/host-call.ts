import { HostFailure } from "./host-failure.ts";
import { fetchOutward, OutboundFailure, type OutboundPolicy } from "./outbound-fetch.ts";
import { retryAfterMs } from "./retry-after.ts";

/** Address of the API of a host, and the headers of a call. */
export interface HostApi {
  /** Without a trailing slash. */
  url: string;
  headers: Record<string, string>;
  allowPrivateNetwork: boolean;
}

export interface HostAnswer {
  status: number;
  body: unknown;
  headers: Headers;
}

/** Time limit of a call. A user waits for most of these responses, so a slower host counts as unreachable. */
const callTimeoutMs = 10_000;

/** Limit of a response. A page of 100 repositories or pull requests of GitHub is about 1 MiB. */
const answerBytesMax = 8 * 1024 * 1024;

/** Values of a response. A page of 100 repositories has some 12,000. */
const answerValuesMax = 100_000;

/**
 * Makes one call of a host's API, without following redirects.
 * @param asked.expected Statuses outside of 200 to 299 that are not failures.
 * @throws HostFailure, or the signal's reason if it is aborted.
 */
export async function callHost(
  api: HostApi,
  asked: { method?: string; path: string; body?: object; expected?: readonly number[]; signal: AbortSignal },
): Promise<HostAnswer> {
  const { method = "GET", path, body, expected = [], signal } = asked;
  const headers = {
    accept: "application/json",
    ...api.headers,
    ...(body !== undefined && { "content-type": "application/json" }),
  };
  const policy: OutboundPolicy = {
    allowPrivateNetwork: api.allowPrivateNetwork,
    plainHttp: api.allowPrivateNetwork ? "anywhere" : "loopback",
    timeoutMs: callTimeoutMs,
    bytesMax: answerBytesMax,
    valuesMax: answerValuesMax,
  };
  try {
    const request = { method, headers, signal, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const response = await fetchOutward(api.url + path, request, policy);
    const answer = { status: response.status, body: parsed(await response.text()), headers: response.headers };
    if (response.ok || expected.includes(response.status)) return answer;
    throw refusalOf(new URL(api.url).host, answer);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof OutboundFailure) throw new HostFailure("unreachable", error.message);
    throw error;
  }
}

function refusalOf(host: string, { status, body, headers }: HostAnswer): HostFailure {
  const { message } = (body ?? {}) as { message?: unknown };
  const said = typeof message === "string" ? `: ${message.replace(/\s+/g, " ").slice(0, 200)}` : "";
  const words = `${host} answered ${status}${said}.`;
  const waitMs = waitOf(headers);
  if (status === 429 || (status === 403 && waitMs > 0)) return new HostFailure("limited", words, waitMs);
  if (status === 404) return new HostFailure("missing", words);
  return new HostFailure(status >= 500 ? "unreachable" : "refused", words);
}

/** Upper bound of a wait. GitHub requests at most one hour, and an invalid value must not block calls without end. */
const waitMaxMs = 86_400_000;

/** Returns the wait from `Retry-After`, or from GitHub's rate limit headers, in milliseconds. */
function waitOf(headers: Headers): number {
  const afterMs = retryAfterMs(headers);
  const isUsedUp = headers.get("x-ratelimit-remaining") === "0";
  const waitMs = afterMs > 0 || !isUsedUp ? afterMs : Number(headers.get("x-ratelimit-reset")) * 1_000 - Date.now();
  return waitMs > 0 ? Math.min(waitMs, waitMaxMs) : 0;
}

function parsed(text: string): unknown {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
