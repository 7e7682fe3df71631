/** Returns the wait from `Retry-After`, in seconds or as a date (RFC 9110 10.2.3), in milliseconds; 0 without one. */
export function retryAfterMs(headers: Headers): number {
  const value = headers.get("retry-after") ?? "";
  const seconds = Number(value);
  const ms = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1_000;
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}
