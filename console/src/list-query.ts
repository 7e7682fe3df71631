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

const field = /(?:^|\s)(tag|listener):(?:"([^"]*)"|(\S+))/g;

/** Reads `checkout tag:team=payments listener:eu`. A value with blanks stands in quotes. The last listener counts. */
export function queryOf(q = ""): ListQuery {
  const found = [...q.matchAll(field)].map(([, name, quoted, plain]) => ({ name, value: quoted ?? plain ?? "" }));
  const valuesOf = (wanted: string) => found.flatMap(({ name, value }) => (name === wanted ? [value] : []));
  return {
    text: q.replace(field, " ").replace(/\s+/g, " ").trim(),
    tags: valuesOf("tag"),
    listener: valuesOf("listener").at(-1),
  };
}

/** Returns the query with other values of a field, or without it. */
export function withField(q: string | undefined, name: "tag" | "listener", values: readonly string[]): string {
  const others = (q ?? "").replace(field, (all, own: string) => (own === name ? "" : all)).trim();
  const written = values.map((value) => `${name}:${/\s/.test(value) ? `"${value}"` : value}`);
  return [others, ...written].filter(Boolean).join(" ");
}
