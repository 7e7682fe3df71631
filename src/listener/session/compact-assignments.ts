import { isDeepStrictEqual } from "node:util";
import type { Assignment } from "../../contract/listeners/assignment.ts";

/**
 * A page of assignments as they are compacted for long, each text in memory once: ids, names and addresses stand in the
 * environment of each again. What a settled deployment is to run is said twice as well, as target and as what serves.
 * Takes the assignments over: their texts are replaced in place.
 */
export function compact(assignments: readonly Assignment[]): Assignment[] {
  const texts = new Map<string, string>();
  return assignments.map((assignment) => {
    const { target, serving } = assignment;
    const compacted = isDeepStrictEqual(target, serving) ? { ...assignment, serving: target } : assignment;
    shareTexts(compacted as unknown as Record<string, unknown>, texts);
    return compacted;
  });
}

function shareTexts(holder: Record<string, unknown>, texts: Map<string, string>): void {
  for (const key of Object.keys(holder)) {
    const value = holder[key];
    if (typeof value === "string") {
      const same = texts.get(value);
      if (same === undefined) texts.set(value, value);
      else holder[key] = same;
    } else if (typeof value === "object" && value !== null) shareTexts(value as Record<string, unknown>, texts);
  }
}
