import { createHash } from "node:crypto";

/** A query has no room for more ids. */
const idsMax = 100;

const digestPrefix = "sha256:";

/** Returns the builds that a listener knows, for the query of `listBuildOrders`. */
export const knownBuildsText = (ids: string[]) => (ids.length > idsMax ? digestOf(ids) : ids.join());

/** Returns whether a listener that sent this text knows exactly these builds. */
export function knowsBuilds(text: string, ids: string[]): boolean {
  if (text.startsWith(digestPrefix)) return text === digestOf(ids);
  const known = new Set(text.split(",").filter((id) => id !== ""));
  return ids.length === known.size && ids.every((id) => known.has(id));
}

const digestOf = (ids: string[]) => digestPrefix + createHash("sha256").update(ids.toSorted().join()).digest("hex");
