/** What an answer asks for: seconds, or a date (RFC 9110 10.2.3). 0: nothing. */
export function retryAfterMs(headers: Headers): number {
  const value = headers.get("retry-after") ?? "";
  const seconds = Number(value);
  const ms = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1_000;
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}
