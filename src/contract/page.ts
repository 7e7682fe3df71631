import { type Static, type TSchema, Type } from "typebox";
import { literals, nullable } from "./schema.ts";

/** Page sizes of every list except the logs (contract 1.6). */
export const pageSizeMax = 100;
export const pageSizeDefault = 20;

export const SortOrder = literals(["asc", "desc"]);
export type SortOrder = Static<typeof SortOrder>;

/** Query fields of an offset list, to be spread into the query object. The maximum exists because PostgreSQL rejects offsets such as 1e50. */
export const offsetQuery = {
  limit: Type.Integer({ minimum: 1, maximum: pageSizeMax, default: pageSizeDefault, description: "Items per page." }),
  offset: Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    default: 0,
    description: "Items to skip: the `offset` of the previous page.",
  }),
};

/** Query fields of a cursor list. */
export const cursorQuery = {
  page_size: Type.Integer({
    minimum: 1,
    maximum: pageSizeMax,
    default: pageSizeDefault,
    description: "Items per page.",
  }),
  cursor: Type.Optional(Type.String({ description: "The `next_cursor` of the previous page." })),
};

export const OffsetQuery = Type.Object(offsetQuery);
export type OffsetQuery = Static<typeof OffsetQuery>;

/** Returns the schema of an offset list's page. A page shorter than `limit` is the last one. */
export function resourcePage<S extends TSchema>(resource: S, id: string) {
  return Type.Object(
    {
      resources: Type.Array(resource),
      offset: Type.Integer({
        description: "Where the next page starts: the request's offset plus the items returned.",
      }),
    },
    { $id: id },
  );
}

/** Returns the schema of a cursor list's page. */
export function cursorPage<S extends TSchema>(item: S, id: string) {
  return Type.Object(
    {
      items: Type.Array(item),
      next_cursor: nullable(Type.String(), "Pass it as `cursor` to get the next page. null: this is the last page."),
    },
    { $id: id },
  );
}
