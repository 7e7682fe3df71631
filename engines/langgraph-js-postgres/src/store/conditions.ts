import type { AuthFilters } from "../stock.ts";
import { plainText, searchable } from "./json.ts";

/** Collects the conditions of a statement with their parameters. */
export class Conditions {
  readonly values: unknown[];
  readonly #texts: string[] = [];

  constructor(values: unknown[] = []) {
    this.values = values;
  }

  /** Adds a condition; `?` stands for the value. A value of `undefined` or `null` adds nothing. */
  add(text: string, value: unknown): this {
    if (value !== undefined && value !== null) this.#texts.push(text.replaceAll("?", this.parameter(value)));
    return this;
  }

  parameter(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }

  /** Requires that a `jsonb` column contains a document. */
  contains(column: string, document: unknown): this {
    return this.add(`${column} @> ?::jsonb`, document == null ? undefined : searchable(document));
  }

  /** Applies the filters that the auth handler of the project returned, as `isAuthMatching` of the stock server does. */
  allowed(column: string, filters: AuthFilters): this {
    for (const [key, value] of Object.entries(filters ?? {})) {
      if (typeof value !== "object" || value === null) this.#equals(column, key, value);
      else if (value.$eq !== undefined) this.#equals(column, key, value.$eq);
      else if (value.$contains) {
        const field = `${column} -> ${this.parameter(plainText(key))}::text`;
        const list = Array.isArray(value.$contains) ? value.$contains : [value.$contains];
        this.add(`(jsonb_typeof(${field}) = 'array' and ${field} @> ?::jsonb)`, searchable(list));
      }
    }
    return this;
  }

  #equals(column: string, key: string, value: unknown): void {
    const field = `${column} -> ${this.parameter(plainText(key))}::text`;
    // An index finds documents that contain the value. It finds no missing fields, which equal null.
    if (value !== undefined && value !== null) this.contains(column, { [key]: value });
    this.add(`coalesce(${field}, 'null') = ?::jsonb`, searchable(value));
  }

  toString(): string {
    return this.#texts.length === 0 ? "true" : this.#texts.join(" and ");
  }
}

/** Returns an `order by` for one of the allowed columns, with the id as the tie-breaker. */
export function order(
  sortBy: string | undefined,
  direction: string | undefined,
  columns: string[],
  id: string,
): string {
  const column = columns.includes(sortBy ?? "") ? sortBy : "created_at";
  const way = direction === "asc" ? "asc" : "desc";
  return `order by ${column} ${way}, ${id} ${way}`;
}
