import type { Client } from "../../src/client/client.ts";
import { type FieldIds, queryOf } from "./list-query.ts";
import { attentionWords } from "./parts/words.ts";
import type { ListSearch } from "./search.ts";

/** Rows of one page of the list. */
export const pageSize = 50;

/** Deployments that need attention come first, then the newest ones. */
export const usualSort = "health";

/** Returns the call for one page of the list, as its address describes it. `ids`: what the fields of the text stand for. */
export function listInput(search: ListSearch, ids: FieldIds) {
  const { text } = queryOf(search.q);
  // A search without an order puts the deployment of exactly this name first.
  const sort = search.sort ?? (text === "" ? usualSort : undefined);
  return {
    limit: pageSize,
    offset: ((search.page ?? 1) - 1) * pageSize,
    ...(text !== "" && { text_contains: text }),
    ...ids,
    ...(search.health !== undefined && {
      health: search.health === "attention" ? [...attentionWords] : [search.health],
    }),
    ...(search.type !== undefined && { deployment_type: search.type as "prod" }),
    ...(sort !== undefined && { sort_by: sort }),
    ...(search.order !== undefined && { sort_order: search.order }),
  };
}

export function listQuery(client: Client, workspaceId: string, search: ListSearch, ids: FieldIds = {}) {
  const input = listInput(search, ids);
  return {
    queryKey: ["deployments", workspaceId, input],
    queryFn: ({ signal }: { signal: AbortSignal }) => client.listDeployments(input, { signal }),
  };
}
