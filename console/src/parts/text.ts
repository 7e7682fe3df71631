/** Returns the first eight characters, such as `3f1c9a0b`, which are enough to recognize an id. */
export const shortId = (id: string) => id.slice(0, 8);

/** Returns a duration such as `0.4 s`, `12 s`, `3 min 20 s` or `2 h 5 min`. */
export function durationText(ms: number): string {
  if (ms < 10_000) return `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d`;
}

/** Returns an age such as `just now`, `12 s ago`, `5 min ago` or `3 d ago`. */
export function agoText(at: string, nowMs = Date.now()): string {
  const seconds = Math.round((nowMs - Date.parse(at)) / 1_000);
  if (seconds < 2) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}
