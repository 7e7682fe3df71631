/** The text of the list's search box, read. */
export interface ListQuery {
  /** Looked for in names, repositories, images and commits. */
  text: string;
  /** Values of tags: `team=payments`, or `payments` of any tag. */
  tags: string[];
  listener: string | undefined;
}

/** What the fields of a query stand for, as the API filters by it. */
export interface FieldIds {
  tag_value_ids?: string;
  listener_id?: string;
}

/** A backslash keeps a quote inside quotes. A value in quotes that is still typed reaches to the end. */
const field = /(?:^|\s)(tag|listener):(?:"((?:[^"\\]|\\.)*)(?:"|$)|(\S*))/g;

/**
 * Reads `checkout tag:team=payments listener:eu`. A value with blanks stands in quotes. The last listener counts, and a field
 * without a value does not.
 */
export function queryOf(q = ""): ListQuery {
  const found = [...q.matchAll(field)].map(([, name, quoted, plain]) => ({
    name,
    value: quoted?.replace(/\\(.)/g, "$1") ?? plain ?? "",
  }));
  const valuesOf = (wanted: string) =>
    found.flatMap(({ name, value }) => (name === wanted && value !== "" ? [value] : []));
  return {
    text: q.replace(field, " ").replace(/\s+/g, " ").trim(),
    tags: valuesOf("tag"),
    listener: valuesOf("listener").at(-1),
  };
}

/** Returns the query with other values of a field, or without it. */
export function withField(q: string | undefined, name: "tag" | "listener", values: readonly string[]): string {
  const others = (q ?? "").replace(field, (all, own: string) => (own === name ? "" : all)).trim();
  return [others, ...values.map((value) => fieldText(name, value))].filter(Boolean).join(" ");
}

/** Returns a field as a query has it. */
export const fieldText = (name: "tag" | "listener", value: string): string =>
  `${name}:${/[\s"\\]/.test(value) ? `"${value.replace(/["\\]/g, String.raw`\$&`)}"` : value}`;
