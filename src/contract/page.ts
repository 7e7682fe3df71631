import { type Static, type TSchema, Type } from "typebox";
import { literals, nullable } from "./schema.ts";

/** Page sizes of every list but the logs (contract 1.6). */
export const pageSizeMax = 100;
export const pageSizeDefault = 20;

export const SortOrder = literals(["asc", "desc"]);
export type SortOrder = Static<typeof SortOrder>;

/** Query pieces of an offset list; spread them into the query object. PostgreSQL takes no offset of 1e50. */
export const offsetQuery = {
  limit: Type.Integer({ minimum: 1, maximum: pageSizeMax, default: pageSizeDefault, description: "Items per page." }),
  offset: Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    default: 0,
    description: "Items to skip: the `offset` of the page before.",
  }),
};

/** Query pieces of a cursor list. */
export const cursorQuery = {
  page_size: Type.Integer({
    minimum: 1,
    maximum: pageSizeMax,
    default: pageSizeDefault,
    description: "Items per page.",
  }),
  cursor: Type.Optional(Type.String({ description: "The `next_cursor` of the page before." })),
};

export const OffsetQuery = Type.Object(offsetQuery);
export type OffsetQuery = Static<typeof OffsetQuery>;

/** A page of an offset list. A page shorter than `limit` is the last one. */
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

/** A page of a cursor list. */
export function cursorPage<S extends TSchema>(item: S, id: string) {
  return Type.Object(
    {
      items: Type.Array(item),
      next_cursor: nullable(Type.String(), "Pass as `cursor` for the next page; null on the last one."),
    },
    { $id: id },
  );
}
