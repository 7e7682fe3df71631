import { fetchOutward } from "../../integrations/outbound-fetch.ts";

/** Answers of a provider: metadata of the largest ones is 10 KiB (contract 9.6 names the bounds). */
const answerBytesMax = 1024 * 1024;
export const providerTimeoutMs = 10_000;

/** What the library calls instead of `fetch`. */
export type ProviderFetch = (
  url: string,
  options?: {
    method?: string;
    headers?: Record<string, string>;
    body?: string | URLSearchParams | Uint8Array | ReadableStream | null | undefined;
    signal?: AbortSignal | undefined;
  },
) => Promise<Response>;

/**
 * How providers are called: with the guard of `fetchOutward`, and encrypted unless they run on this machine. The library's
 * own check of `https` is switched off by its callers, as this one knows more.
 */
export function createProviderFetch(
  settings: { allowPrivateNetwork: boolean },
  timeoutMs: number = providerTimeoutMs,
): ProviderFetch {
  const policy = { ...settings, plainHttp: "loopback", timeoutMs, bytesMax: answerBytesMax } as const;
  return (url, options = {}) => {
    const { body = null } = options;
    if (body instanceof ReadableStream) throw new TypeError("a request to a provider has a short body");
    return fetchOutward(url, { ...options, body: body instanceof URLSearchParams ? body.toString() : body }, policy);
  };
}
