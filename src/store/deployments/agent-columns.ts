import { isUuid } from "../engine/is-uuid.ts";
import { type Sql, sql } from "../engine/sql.ts";

/** The id of the agent that a deployment `d` was created for: a UUID or a DNS label, each in a column of its own; null: none. */
export const agentId = sql.raw("coalesce(d.agent_name, d.agent_id::text)");

/** Restricts deployments `d` to those of an agent, so that the unique index of its column is used. */
export function isOfAgent(id: string): Sql {
  return isUuid(id) ? sql`d.agent_id = ${id}::uuid` : sql`d.agent_name = ${id}`;
}

/** Returns the columns that store an agent's id. */
export function agentColumns(id: string | null): { agent_id: string | null; agent_name: string | null } {
  return id === null || isUuid(id) ? { agent_id: id, agent_name: null } : { agent_id: null, agent_name: id };
}
