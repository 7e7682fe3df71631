import { fetchOutward } from "../../integrations/outbound-fetch.ts";

/** Maximum size of a provider's response, within the bounds of contract 9.6. The metadata of the largest providers is 10 KiB. */
const answerBytesMax = 128 * 1024;

/** Values of such a response. The metadata of the largest providers has some hundreds. */
const answerValuesMax = 5_000;
export const providerTimeoutMs = 10_000;

/** Function that `oauth4webapi` calls instead of `fetch`. */
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
 * Returns the function for calls to providers: with the checks of `fetchOutward`, and encrypted unless the provider runs on
 * this machine. Callers disable the library's own check of `https`, because this one is more precise.
 */
export function createProviderFetch(
  settings: { allowPrivateNetwork: boolean },
  timeoutMs: number = providerTimeoutMs,
): ProviderFetch {
  const limits = { timeoutMs, bytesMax: answerBytesMax, valuesMax: answerValuesMax };
  const policy = { ...settings, ...limits, plainHttp: "loopback" } as const;
  return (url, options = {}) => {
    const { body = null } = options;
    if (body instanceof ReadableStream) throw new TypeError("requests to a provider must not have a streamed body");
    return fetchOutward(url, { ...options, body: body instanceof URLSearchParams ? body.toString() : body }, policy);
  };
}
