import { useQuery } from "@tanstack/react-query";
import type { Tag } from "../../../src/contract/administration/tag.ts";
import { gathered } from "../gathered.ts";
import { type FieldIds, queryOf } from "../list-query.ts";
import { useSession } from "../session.tsx";

/** Tags and listeners change seldom. */
const renewMs = 60_000;

export interface ListFields {
  /** What the fields of the query stand for; null while it is read or if something is unknown. */
  ids: FieldIds | null;
  /** Why a field stands for nothing. */
  problem: string | null;
}

/** Returns what the fields of a query stand for. A query without fields reads nothing. */
export function useListFields(q: string | undefined): ListFields {
  const { tags: named, listener } = queryOf(q);
  const tags = useTags(named.length > 0);
  const listeners = useListeners(listener !== undefined);
  if ((named.length > 0 && tags === undefined) || (listener !== undefined && listeners === undefined))
    return { ids: null, problem: null };
  const valueIds = named.map((one) => valuesNamed(tags ?? [], one).map(({ id }) => id));
  const unknown = named.find((_, index) => valueIds[index]?.length === 0);
  if (unknown !== undefined) return { ids: null, problem: `No tag has the value ${unknown}.` };
  const at = listeners?.find(({ compute_id: name }) => name === listener);
  if (listener !== undefined && at === undefined) return { ids: null, problem: `No listener is called ${listener}.` };
  const ids: FieldIds = {
    ...(valueIds.length > 0 && { tag_value_ids: valueIds.flat().join(",") }),
    ...(listener !== undefined && at !== undefined && { listener_id: at.id }),
  };
  return { ids, problem: null };
}

/** Returns the tags of the workspace. undefined: not read yet. */
export function useTags(isEnabled: boolean): Tag[] | undefined {
  const { client, workspaceId } = useSession();
  const found = useQuery({
    queryKey: ["tags", workspaceId],
    queryFn: ({ signal }) => gathered(client.all("listTags", {}, { signal })),
    staleTime: renewMs,
    enabled: isEnabled,
  });
  return found.data ?? (found.isError ? [] : undefined);
}

/** Returns the listeners of the workspace, none where the plan has no listeners. undefined: not read yet. */
export function useListeners(isEnabled: boolean) {
  const { client, workspaceId } = useSession();
  const found = useQuery({
    queryKey: ["listeners", workspaceId],
    queryFn: ({ signal }) => gathered(client.all("listListeners", {}, { signal })),
    staleTime: renewMs,
    retry: false,
    throwOnError: false,
    enabled: isEnabled,
  });
  return found.data ?? (found.isError ? [] : undefined);
}

/** Returns the values that `team=payments` or `payments` names. */
function valuesNamed(tags: readonly Tag[], text: string) {
  const at = text.indexOf("=");
  const [tag, value] = at < 0 ? [undefined, text] : [text.slice(0, at), text.slice(at + 1)];
  return tags
    .filter(({ name }) => tag === undefined || name === tag)
    .flatMap(({ values }) => values.filter(({ name }) => name === value));
}
