import type { OAuthDeps } from "../../auth/oauth/deps.ts";
import { importAgentToken } from "../../auth/oauth/import-token.ts";
import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import type { AgentConnection } from "../../contract/oauth/oauth-token.ts";
import { operations } from "../../contract/operations.ts";
import {
  type AgentConnectionRow,
  connectToken,
  deleteAgentConnection,
  listAgentConnections,
} from "../../store/oauth/agent-connections.ts";
import { findToken } from "../../store/oauth/oauth-tokens.ts";
import { type Api, type Handler, route } from "../http/route.ts";
import { userOf } from "./oauth.ts";

/** Adds the routes that connect tokens to an agent, for all of its users (contract 9.2). */
export function addAuthConnectionRoutes(api: Api, oauth: OAuthDeps): void {
  const { db } = oauth;

  route(api, operations.listAgentConnections, async ({ principal, params }) => {
    const rows = await listAgentConnections(db, { tenantId: principal.tenantId, agentId: params.agent_id });
    return { data: rows.map(connectionOf) };
  });

  const connect: Handler<typeof operations.createAgentConnection, Principal> = async (call) => {
    const { principal, params, body, request } = call;
    const { tenantId } = principal;
    const userId = userOf(principal, request);
    const token = await findToken(db, tenantId, body.oauth_token_id);
    // Users may only share their own tokens.
    if (token === undefined || token.user_id !== userId) throw errors.oauthTokenNotFound(body.oauth_token_id);
    return connectionOf(
      await db.transaction((trx) =>
        connectToken(trx, principal.actor, {
          tenantId,
          agentId: params.agent_id,
          tokenId: token.id,
          createdBy: userId,
        }),
      ),
    );
  };
  route(api, operations.createAgentConnection, connect, { userOf });

  route(api, operations.deleteAgentConnection, async ({ principal, params }) => {
    const agent = { tenantId: principal.tenantId, agentId: params.agent_id };
    const isDeleted = await db.transaction((trx) =>
      deleteAgentConnection(trx, principal.actor, agent, params.connection_id),
    );
    if (!isDeleted) throw errors.agentConnectionNotFound(params.connection_id);
  });

  route(api, operations.putAgentToken, async ({ principal, params, body, request }) => {
    const { provider_account_label: accountLabel = null, ...imported } = body;
    const createdBy = userOf(principal, request);
    const { agent_id: agentId, provider_id: providerId } = params;
    return connectionOf(
      await importAgentToken(oauth, principal, { agentId, providerId, imported, accountLabel, createdBy }),
    );
  });
}

function connectionOf(row: AgentConnectionRow): AgentConnection {
  const { id, agent_id, oauth_token_id, provider_id, account_label, scopes, created_by } = row;
  return {
    id,
    agent_id,
    oauth_token_id,
    provider_id,
    scopes,
    created_by,
    provider_account_label: account_label,
    expires_at: row.expires_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
  };
}
