import type { Static, TSchema } from "typebox";
import type { operations } from "../contract/operations.ts";
import type { clientRoutes } from "../contract/routes.ts";

/** Operations that the client has a method for. */
export type ClientOperations = Pick<typeof operations, keyof typeof clientRoutes>;

/** What a call takes: path parameters and query in one object, the JSON body under `body`. What has a default may be left out. */
export type Input<O> = PartOf<O, "params"> & Optional<PartOf<O, "query">> & BodyOf<O>;

/** What a call gives back: the body of the answer; nothing where there is none. */
export type Output<O> = O extends { response: { schema: infer S extends TSchema } } ? Static<S> : undefined;

type PartOf<O, Part extends string> = O extends { [P in Part]: infer S extends TSchema } ? Static<S> : unknown;

/** Types do not say which parameters have a default; a test compares this list with the schemas. */
type NeededParameter = "type" | "deployment_id" | "deployment_ids" | "provider_id";
type Optional<Query> = Partial<Query> & Pick<Query, keyof Query & NeededParameter>;

type BodyOf<O> = O extends { body: infer B extends TSchema }
  ? O extends { bodyRequired: false }
    ? { body?: Static<B> }
    : { body: Static<B> }
  : unknown;

/** Operations that list things page by page. */
export type ListId = {
  [Id in keyof ClientOperations]: [ItemOf<Id>] extends [never] ? never : Id;
}[keyof ClientOperations];

/** One thing of such a list. */
export type ItemOf<Id extends keyof ClientOperations> =
  Output<ClientOperations[Id]> extends { resources: (infer R)[]; offset: number }
    ? R
    : Output<ClientOperations[Id]> extends { items: (infer R)[]; next_cursor: string | null }
      ? R
      : never;

/** The question that such a list takes, without the place in it. */
export type ListInput<Id extends ListId> = Omit<
  Input<ClientOperations[Id]>,
  "limit" | "offset" | "page_size" | "cursor"
>;
