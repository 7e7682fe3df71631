import { HostFailure } from "./host-failure.ts";
import { fetchOutward, OutboundFailure, type OutboundPolicy } from "./outbound-fetch.ts";
import { retryAfterMs } from "./retry-after.ts";

/** Where a host's API is, and what it is asked with. */
export interface HostApi {
  /** Without a slash at the end. */
  url: string;
  headers: Record<string, string>;
  allowPrivateNetwork: boolean;
}

export interface HostAnswer {
  status: number;
  body: unknown;
  headers: Headers;
}

/** Somebody waits for most of these answers; a host that needs longer is as good as away. */
const callTimeoutMs = 10_000;

/** A page of a hundred repositories or pull requests of GitHub is about 1 MiB. */
const answerBytesMax = 8 * 1024 * 1024;

/**
 * One call of a host's API; no redirect is followed.
 * @param asked.expected Statuses that are no failure although they are none of 200 to 299.
 * @throws HostFailure, or the signal's reason when it is aborted.
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

/** GitHub asks for an hour at most. A host that says nonsense must not make a time of it that no clock reaches. */
const waitMaxMs = 86_400_000;

/** `Retry-After`, or GitHub's way of saying that an hour's calls are used up. */
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
