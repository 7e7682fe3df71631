import type { Client } from "../../src/client/client.ts";
import { attentionWords } from "./parts/words.ts";
import type { ListSearch } from "./search.ts";

/** Rows of one page of the list. */
export const pageSize = 50;

/** Returns the call for one page of the list, as its address describes it. */
export function listInput(search: ListSearch) {
  return {
    limit: pageSize,
    offset: ((search.page ?? 1) - 1) * pageSize,
    ...(search.q !== undefined && { name_contains: search.q }),
    ...(search.health !== undefined && {
      health: search.health === "attention" ? [...attentionWords] : [search.health],
    }),
    ...(search.type !== undefined && { deployment_type: search.type as "prod" }),
    ...(search.sort !== undefined && { sort_by: search.sort }),
    ...(search.order !== undefined && { sort_order: search.order }),
  };
}

export function listQuery(client: Client, workspaceId: string, search: ListSearch) {
  const input = listInput(search);
  return {
    queryKey: ["deployments", workspaceId, input],
    queryFn: ({ signal }: { signal: AbortSignal }) => client.listDeployments(input, { signal }),
  };
}
