import type { Static, TSchema } from "typebox";
import type { operations } from "../contract/operations.ts";
import type { clientRoutes } from "../contract/routes.ts";

/** Operations with a method in the client. */
export type ClientOperations = Pick<typeof operations, keyof typeof clientRoutes>;

/** Input of a call: path parameters and query in one object, the JSON body under `body`. Parameters with a default may be left out. */
export type Input<O> = PartOf<O, "params"> & Optional<PartOf<O, "query">> & BodyOf<O>;

/** Result of a call: the body of the response, or undefined if it has none. */
export type Output<O> = O extends { response: { schema: infer S extends TSchema } } ? Static<S> : undefined;

type PartOf<O, Part extends string> = O extends { [P in Part]: infer S extends TSchema } ? Static<S> : unknown;

/** Parameters without a default. Types do not show which have one, so a test compares this list with the schemas. */
type NeededParameter = "type" | "deployment_id" | "deployment_ids" | "provider_id" | "user_code";
type Optional<Query> = Partial<Query> & Pick<Query, keyof Query & NeededParameter>;

type BodyOf<O> = O extends { body: infer B extends TSchema }
  ? O extends { bodyRequired: false }
    ? { body?: Static<B> }
    : { body: Static<B> }
  : unknown;

/** Operations that return a list page by page. */
export type ListId = {
  [Id in keyof ClientOperations]: [ItemOf<Id>] extends [never] ? never : Id;
}[keyof ClientOperations];

/** Item of such a list. */
export type ItemOf<Id extends keyof ClientOperations> =
  Output<ClientOperations[Id]> extends { resources: (infer R)[]; offset: number }
    ? R
    : Output<ClientOperations[Id]> extends { items: (infer R)[]; next_cursor: string | null }
      ? R
      : never;

/** Input of such a list, without page size and position. */
export type ListInput<Id extends ListId> = Omit<
  Input<ClientOperations[Id]>,
  "limit" | "offset" | "page_size" | "cursor"
>;
