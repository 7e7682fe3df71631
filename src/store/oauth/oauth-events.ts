import { randomUUID } from "node:crypto";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import type { Subject } from "./oauth-tokens.ts";
import { oauthTokenEventsTable } from "./tables.ts";

export type TokenEventType = "connected" | "refreshed" | "refresh_failed" | "flow_failed" | "imported" | "deleted";

/** An entry of a token's history, for diagnosis. Never contains a token, a code or a provider's text. */
export interface TokenEvent {
  type: TokenEventType;
  source: "authenticate" | "callback" | "import" | "delete" | "refresh";
  providerId: string;
  tokenId?: string | null;
  reason?: string | null;
  detail?: string | null;
  scopes?: readonly string[];
  accountLabel?: string | null;
}

const eventFields = pick(
  oauthTokenEventsTable,
  "id",
  "provider_id",
  "agent_id",
  "event_type",
  "reason",
  "source",
  "account_label",
  "scopes",
  "detail",
  "acknowledged_at",
  "created_at",
);

export type TokenEventRow = RowOf<typeof eventFields>;

const columns = selectList(eventFields);

export async function recordTokenEvent(db: Db | Trx, subject: Subject, note: TokenEvent): Promise<void> {
  await db.query(sql`
    insert into oauth_token_events (id, tenant_id, provider_id, user_id, agent_id, token_id, event_type, reason, source,
      account_label, scopes, detail)
    values (${randomUUID()}, ${subject.tenantId}, ${note.providerId}, ${subject.userId}, ${subject.agentId},
      ${note.tokenId ?? null}, ${note.type}, ${note.reason ?? null}, ${note.source}, ${note.accountLabel ?? null},
      ${JSON.stringify(note.scopes ?? [])}, ${note.detail ?? null})`);
}

/** Returns the events of one user, newest first. */
export async function listTokenEvents(
  db: Db,
  {
    tenantId,
    userId,
    providerId,
    limit,
  }: { tenantId: string; userId: string; providerId: string | null; limit: number },
): Promise<TokenEventRow[]> {
  const { rows } = await db.query<TokenEventRow>(sql`
    select ${columns} from oauth_token_events
     where tenant_id = ${tenantId} and user_id = ${userId} and provider_id = coalesce(${providerId}, provider_id)
     order by seq desc limit ${limit}`);
  return rows;
}
