import { randomUUID } from "node:crypto";
import { errors } from "../../contract/error.ts";
import { oauthTokensListedMax } from "../../domain/limits.ts";
import { type Db, isForeignKeyViolation, type Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { type AuditNote, audited } from "../tenants/audit.ts";

/** The connection of a token with an agent that may use it. */
export interface AgentConnectionRow {
  id: string;
  agent_id: string;
  oauth_token_id: string;
  provider_id: string;
  account_label: string | null;
  scopes: string[];
  expires_at: Date | null;
  created_by: string;
  created_at: Date;
}

interface Agent {
  tenantId: string;
  agentId: string;
}

const columns = sql.raw(
  "c.id, c.agent_id, c.oauth_token_id, p.provider_id, t.account_label, t.scopes, t.expires_at, c.created_by, c.created_at",
);

export async function listAgentConnections(db: Db, { tenantId, agentId }: Agent): Promise<AgentConnectionRow[]> {
  const { rows } = await db.query<AgentConnectionRow>(sql`
    select ${columns} from agent_connections c
      join oauth_tokens t on t.id = c.oauth_token_id join oauth_providers p on p.id = t.provider_row_id
     where c.tenant_id = ${tenantId} and c.agent_id = ${agentId} order by c.created_at, c.id
     limit ${oauthTokensListedMax}`);
  return rows;
}

/**
 * Connects a token with an agent. An agent has one connection per owner and provider, so an earlier one is removed.
 * Connecting the same token again changes nothing.
 * @throws ApiError 404 `oauthTokenNotFound` when the token was deleted in the meantime.
 */
export async function connectToken(
  db: Db | Trx,
  actor: string,
  { tenantId, agentId, tokenId, createdBy }: Agent & { tokenId: string; createdBy: string },
): Promise<AgentConnectionRow> {
  const { rows: made } = await db
    .query<{ id: string }>(sql`
    with earlier as (
      delete from agent_connections c using oauth_tokens t, oauth_tokens chosen
       where c.tenant_id = ${tenantId} and c.agent_id = ${agentId} and t.id = c.oauth_token_id and chosen.id = ${tokenId}
         and t.id <> chosen.id and t.provider_row_id = chosen.provider_row_id
         and t.user_id is not distinct from chosen.user_id)
    insert into agent_connections (id, tenant_id, agent_id, oauth_token_id, created_by)
    values (${randomUUID()}, ${tenantId}, ${agentId}, ${tokenId}, ${createdBy})
    on conflict on constraint agent_connections_token do nothing returning id`)
    .catch((error: unknown) => {
      const isGone = isForeignKeyViolation(error, "agent_connections_oauth_token_id_fkey");
      throw isGone ? errors.oauthTokenNotFound(tokenId) : error;
    });
  const details = { token_id: tokenId, created_by: createdBy };
  for (const { id } of made) {
    const note = { action: "agent_connection.create", details };
    await noteConnection(db, { tenantId, agentId }, id, { ...note, actor });
  }
  const { rows } = await db.query<AgentConnectionRow>(sql`
    select ${columns} from agent_connections c
      join oauth_tokens t on t.id = c.oauth_token_id join oauth_providers p on p.id = t.provider_row_id
     where c.tenant_id = ${tenantId} and c.agent_id = ${agentId} and c.oauth_token_id = ${tokenId}`);
  const [connection] = rows;
  if (connection === undefined) throw errors.oauthTokenNotFound(tokenId);
  return connection;
}

/** Deletes a connection. @returns false when the agent has no such connection. */
export async function deleteAgentConnection(db: Db | Trx, actor: string, agent: Agent, id: string): Promise<boolean> {
  const { rows } = await db.query(sql`
    delete from agent_connections
     where id = ${id} and tenant_id = ${agent.tenantId} and agent_id = ${agent.agentId} returning id`);
  if (rows.length === 0) return false;
  await noteConnection(db, agent, id, { actor, action: "agent_connection.delete" });
  return true;
}

/** Deletes the agent's own tokens of a provider that no connection uses any more. */
export async function deleteLooseAgentTokens(
  db: Db | Trx,
  { tenantId, agentId }: Agent,
  providerRowId: string,
): Promise<void> {
  await db.query(sql`
    delete from oauth_tokens t
     where t.tenant_id = ${tenantId} and t.provider_row_id = ${providerRowId} and t.user_id is null and t.agent_id = ${agentId}
       and not exists (select 1 from agent_connections c where c.oauth_token_id = t.id)`);
}

async function noteConnection(db: Db | Trx, { tenantId, agentId }: Agent, id: string, note: AuditNote): Promise<void> {
  const { rows } = await db.query<{ organization_id: string }>(sql`
    select organization_id from workspaces where id = ${tenantId}`);
  const organizationId = rows[0]?.organization_id ?? "";
  await db.query(audited({ organizationId, workspaceId: tenantId, id, name: agentId }, note));
}
