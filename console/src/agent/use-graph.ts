import { useQuery } from "@tanstack/react-query";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { type Agent, segment } from "./client.ts";
import type { GraphShape } from "./types.ts";

/** Reads the graph of the chosen assistant, with the graphs inside of its nodes. */
export function useGraph(deployment: Deployment, { agent, chosen }: { agent: Agent; chosen: string }) {
  return useQuery({
    queryKey: ["agent", deployment.id, "graph", chosen, deployment.active_revision_id],
    queryFn: async ({ signal }) => {
      const path = `/assistants/${segment(chosen)}/graph`;
      const read = (query: string) =>
        agent.call<Partial<GraphShape> | null>("GET", `${path}${query}`, undefined, signal);
      // A server that cannot look into nodes still describes the graph itself. The parts of a chain in a node have no names.
      const inside = await read("?xray=true").catch(() => null);
      const isNamed =
        Array.isArray(inside?.nodes) && inside.nodes.every(({ id }) => !/[0-9a-f]{8}-[0-9a-f]{4}-/.test(String(id)));
      const found = isNamed ? inside : await read("");
      // Agents are foreign servers.
      if (!Array.isArray(found?.nodes) || !Array.isArray(found.edges)) throw new Error("its answer has no nodes.");
      return { nodes: found.nodes, edges: found.edges };
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
}
