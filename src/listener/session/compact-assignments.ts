import { isDeepStrictEqual } from "node:util";
import type { Assignment } from "../../contract/listeners/assignment.ts";

/**
 * Compacts a page of assignments that stays in memory for long, so that each distinct string is stored once: ids, names and
 * addresses recur in the environments. Target and serving run of a settled deployment are equal and share one object.
 * Modifies the given assignments.
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
