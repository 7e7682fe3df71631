import { createHash, randomBytes } from "node:crypto";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import type { Owner } from "./integrations.ts";

/** Time to log in at the host, and to ask an owner of the organization. */
const linkLifeMs = 3_600_000;

/** The prefix of a state, which distinguishes it from one of the OAuth service. */
const prefix = "install.";

/** Creates a link that leads to the host's page and back. @returns the state, of which only the digest is stored. */
export async function createInstallationLink(db: Db, owner: Owner, returnTo: string | null): Promise<string> {
  const state = prefix + randomBytes(32).toString("base64url");
  await db.query(sql`
    with old as (delete from installation_links where expires_at < now())
    insert into installation_links (state_digest, tenant_id, organization_id, actor, return_to, expires_at)
    values (${digestOf(state)}, ${owner.tenantId}, ${owner.organizationId}, ${owner.actor}, ${returnTo},
      now() + ${linkLifeMs} * interval '1 millisecond')`);
  return state;
}

export const isInstallationState = (state: string) => state.startsWith(prefix);

export interface InstallationLink extends Owner {
  returnTo: string | null;
  createdAt: Date;
}

/** Consumes a link; undefined: unknown, used or expired, or its creator is no longer an admin there. */
export async function consumeInstallationLink(db: Db, state: string): Promise<InstallationLink | undefined> {
  const { rows } = await db.query<InstallationLink>(sql`
    delete from installation_links l where l.state_digest = ${digestOf(state)} and l.expires_at > now() and ${isByAdmin}
    returning tenant_id as "tenantId", organization_id as "organizationId", actor, return_to as "returnTo",
              created_at as "createdAt"`);
  return rows[0];
}

/** A key's role never changes, a member's may. */
const isByAdmin = sql`(
  exists (select 1 from api_keys k where 'key:' || k.id::text = l.actor and k.revoked_at is null
             and (k.expires_at is null or k.expires_at > now()))
  or exists (select 1 from members m where 'member:' || m.id::text = l.actor and m.role = 'admin'))`;

const digestOf = (state: string) => createHash("sha256").update(state).digest();
