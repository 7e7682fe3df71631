import { createHash, randomBytes } from "node:crypto";
import type { PickerSession } from "../../contract/integrations/integration.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import type { InstallationLink } from "./installation-links.ts";

/** Time to read the list and choose. */
const sessionLifeMs = 3_600_000;

/** Offers installations to the creator of the link. @returns the session's id, of which only the digest is stored. */
export async function createPickerSession(
  db: Db,
  { tenantId, organizationId, returnTo }: InstallationLink,
  usable: readonly { id: number; account: string; accountType: "User" | "Organization" }[],
): Promise<string> {
  // Users pass the id to a command, so it must not look like an option.
  const id = randomBytes(32).toString("base64url").replace(/^-/, "A");
  const installs = usable.map((one) => ({
    installation_id: one.id,
    account_login: one.account,
    account_type: one.accountType,
  }));
  await db.query(sql`
    with old as (delete from picker_sessions where expires_at < now())
    insert into picker_sessions (id_digest, tenant_id, organization_id, installs, return_to, expires_at)
    values (${digestOf(id)}, ${tenantId}, ${organizationId}, ${JSON.stringify(installs)}, ${returnTo},
      now() + ${sessionLifeMs} * interval '1 millisecond')`);
  return id;
}

/** Returns a session; undefined: the workspace does not have it, or no longer. */
export async function findPickerSession(db: Db, tenantId: string, id: string): Promise<PickerSession | undefined> {
  const { rows } = await db.query<PickerSession & { taken: number[] }>(sql`
    select s.installs, s.return_to, array(
             select i.installation_id from integrations i join workspaces w on w.id = i.tenant_id
              where w.organization_id = s.organization_id and i.installation_id is not null) as taken
      from picker_sessions s where ${isGood(tenantId, id)}`);
  const [row] = rows;
  if (row === undefined) return undefined;
  const taken = new Set(row.taken.map(Number));
  const installs = row.installs.map((one) => ({ ...one, already_in_org: taken.has(one.installation_id) }));
  return { installs, return_to: row.return_to };
}

/** Ends a session after the choice. @returns false when it had ended before. */
export async function endPickerSession(db: Db, tenantId: string, id: string): Promise<boolean> {
  const { rowCount } = await db.query(sql`
    delete from picker_sessions s where ${isGood(tenantId, id)}`);
  return rowCount === 1;
}

const isGood = (tenantId: string, id: string) =>
  sql`s.id_digest = ${digestOf(id)} and s.tenant_id = ${tenantId} and s.expires_at > now()`;

const digestOf = (id: string) => createHash("sha256").update(id).digest();
