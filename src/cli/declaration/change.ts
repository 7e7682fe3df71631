import { isDeepStrictEqual } from "node:util";
import { harmless } from "../terminal/terminal.ts";

/** What must happen to one deployment. Values of variables are never shown. */
export interface Change {
  name: string;
  action: "create" | "change" | "delete";
  fields: { field: string; from: unknown; to: unknown }[];
  variables: { set: string[]; removed: string[] };
}

/** Returns the fields that differ. Of a resource spec only the given ones count, because responses fill in the others. */
export function differing(current: object, wanted: object): Change["fields"] {
  const before = current as Record<string, unknown>;
  return Object.entries(wanted).flatMap(([field, to]) => {
    const from = before[field] ?? null;
    if (isDeepStrictEqual(from, to)) return [];
    if (field !== "resource_spec" || from === null) return [{ field, from, to }];
    const parts = differing(from as object, to as object);
    const side = (which: "from" | "to") => Object.fromEntries(parts.map((part) => [part.field, part[which]]));
    return parts.length === 0 ? [] : [{ field, from: side("from"), to: side("to") }];
  });
}

/** Formats changes as text, or returns undefined without any. */
export function showChanges(changes: readonly Change[]): string | undefined {
  if (changes.length === 0) return undefined;
  const signs = { create: "+", change: "~", delete: "-" } as const;
  const lines = changes.flatMap(({ name, action, fields, variables }) => [
    `${signs[action]} ${name}`,
    ...fields.map(({ field, from, to }) =>
      from === null
        ? `    ${field}: ${JSON.stringify(to)}`
        : `    ${field}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}`,
    ),
    ...variables.set.map((one) => `    variable ${one}: set`),
    ...variables.removed.map((one) => `    variable ${one}: removed`),
  ]);
  return lines.map(harmless).join("\n");
}
