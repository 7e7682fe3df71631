import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { LogCounts } from "../../../src/contract/logs/search.ts";
import { useSession } from "../session.tsx";

/** A revision that began to serve. */
export interface RevisionMark {
  atMs: number;
  text: string;
}

const eventsMax = 500;
const renewMs = 60_000;
const none: RevisionMark[] = [];

/** Returns the revisions that began to serve in the range, of the deployments whose lines were found. */
export function useRevisionMarks(
  counts: LogCounts | null,
  range: { from: string; to: string } | null,
): readonly RevisionMark[] {
  const { client, workspaceId } = useSession();
  const events = useQuery({
    queryKey: ["began-to-serve", workspaceId],
    queryFn: ({ signal }) =>
      client.listEvents({ types: ["revision.status"], order: "desc", limit: eventsMax }, { signal }),
    staleTime: renewMs,
    refetchInterval: renewMs,
    enabled: counts !== null,
  });
  const found = events.data?.events;
  const names = counts?.deployments;
  return useMemo(() => {
    if (found === undefined || names === undefined || range === null) return none;
    const nameOf = new Map(names.map(({ deployment_id: id, name }) => [id, name]));
    return found.flatMap(({ data, created_at, deployment_id: id }) => {
      const name = nameOf.get(id ?? "");
      const isShown = data["to"] === "DEPLOYED" && created_at >= range.from && created_at <= range.to;
      if (name === undefined || !isShown) return [];
      return [{ atMs: Date.parse(created_at), text: `${name}: a revision began to serve` }];
    });
  }, [found, names, range]);
}
