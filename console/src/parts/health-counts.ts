import { useQuery } from "@tanstack/react-query";
import { useSession } from "../session.tsx";
import { HealthNames, type HealthWord } from "./words.ts";

export interface HealthCounts {
  of: (words: readonly HealthWord[]) => number;
  total: number;
}

/** Returns how many deployments of the workspace have each health. undefined: not read yet. */
export function useHealthCounts(): HealthCounts | undefined {
  const { client, workspaceId } = useSession();
  const found = useQuery({
    queryKey: ["deployments", workspaceId, "health-counts"],
    queryFn: ({ signal }) => client.countHealth({}, { signal }),
  });
  if (found.data === undefined) return undefined;
  const { counts } = found.data;
  const of = (words: readonly HealthWord[]) => words.reduce((sum, word) => sum + counts[word], 0);
  return { of, total: of(HealthNames) };
}
