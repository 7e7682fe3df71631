import { useQuery } from "@tanstack/react-query";
import type { Tag } from "../../../src/contract/administration/tag.ts";
import { gathered } from "../gathered.ts";
import { type FieldIds, fieldText, queryOf } from "../list-query.ts";
import { textOf } from "../server.ts";
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
  const failed = (named.length > 0 && tags.error) || (listener !== undefined && listeners.error);
  if (failed) return { ids: null, problem: textOf(failed) };
  const isRead =
    (named.length === 0 || tags.data !== undefined) && (listener === undefined || listeners.data !== undefined);
  if (!isRead) return { ids: null, problem: null };
  const values = named.map((one) => valuesNamed(tags.data ?? [], one));
  const at = listeners.data?.find(({ compute_id: name }) => name === listener);
  const problem =
    named.map((one, index) => problemOf(one, values[index] ?? [])).find((text) => text !== null) ??
    (listener !== undefined && at === undefined ? `No listener is called ${listener}.` : null);
  if (problem !== null) return { ids: null, problem };
  const ids: FieldIds = {
    ...(named.length > 0 && { tag_value_ids: values.flatMap((found) => found.map(({ id }) => id)).join(",") }),
    ...(at !== undefined && { listener_id: at.id }),
  };
  return { ids, problem: null };
}

/** Returns the tags of the workspace. */
export function useTags(isEnabled: boolean) {
  const { client, workspaceId } = useSession();
  return useQuery({
    queryKey: ["tags", workspaceId],
    queryFn: ({ signal }) => gathered(client.all("listTags", {}, { signal })),
    staleTime: renewMs,
    throwOnError: false,
    enabled: isEnabled,
  });
}

/** Returns the listeners of the workspace. The server refuses the call for plans without listeners. */
export function useListeners(isEnabled: boolean) {
  const { client, workspaceId } = useSession();
  return useQuery({
    queryKey: ["listeners", workspaceId],
    queryFn: ({ signal }) => gathered(client.all("listListeners", {}, { signal })),
    staleTime: renewMs,
    retry: false,
    throwOnError: false,
    enabled: isEnabled,
  });
}

interface TagValue {
  id: string;
  tag: string;
}

/** Returns why a field names no single value. The server would ask for values of several tags at once. */
function problemOf(text: string, values: readonly TagValue[]): string | null {
  const [first, second] = values;
  if (first === undefined) return `No tag has the value ${text}.`;
  if (second === undefined) return null;
  const written = ({ tag }: TagValue) => fieldText("tag", `${tag}=${text}`);
  return `Several tags have the value ${text}. Write ${written(first)} or ${written(second)}.`;
}

/** Returns the values that `team=payments` or `payments` names. Names of tags and values may have equals signs, too. */
function valuesNamed(tags: readonly Tag[], text: string): TagValue[] {
  const found = tags.flatMap(({ name: tag, values }) => values.map(({ id, name }) => ({ id, tag, name })));
  const full = found.filter(({ tag, name }) => text === `${tag}=${name}`);
  return full.length > 0 ? full : found.filter(({ name }) => text === name);
}
