const dayMs = 86_400_000;

/** Returns the day of a time in the zone of the browser, as a key for {@link dayText}. */
export const dayOf = (at: string) => new Date(at).toDateString();

/** Returns a day as people name it, such as `Today` or `Tuesday, 3 March`. */
export function dayText(day: string): string {
  const agoDays = Math.round((new Date(new Date().toDateString()).getTime() - new Date(day).getTime()) / dayMs);
  if (agoDays < 2) return agoDays < 1 ? "Today" : "Yesterday";
  const year = new Date(day).getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" as const };
  return new Date(day).toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long", ...year });
}
