import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import type { SealedColumn, Sealer } from "../secrets/seal.ts";
import { audited } from "../tenants/audit.ts";

/** The visible part of the GitHub App that was created from this server's manifest. */
export interface GithubAppRow {
  id: string;
  app_id: string;
  name: string;
  url: string;
  page_url: string;
  has_webhook: boolean;
  created_at: Date;
}

export interface GithubAppSecrets {
  /** PEM. */
  privateKey: string;
  webhookSecret: string | null;
  client: { id: string; secret: string };
}

export const sealedGithubApp: SealedColumn = {
  ...{ table: "github_app", id: "id", keyColumn: "data_key_id", column: "sealed" },
  boundBy: ["id"],
  boundTo: (row) => boundTo(String(row["id"])),
};

/** Returns the App; undefined: there is none. `open` returns the sealed part. */
export async function findGithubApp(
  db: Db,
  sealer: Sealer,
): Promise<(GithubAppRow & { open(): GithubAppSecrets }) | undefined> {
  const { rows } = await db.query<GithubAppRow & { data_key_id: string; sealed: Buffer }>(sql`
    select id, app_id, name, url, page_url, has_webhook, created_at, data_key_id, sealed from github_app`);
  const [row] = rows;
  if (row === undefined) return undefined;
  const { data_key_id: keyId, sealed, ...shown } = row;
  return { ...shown, open: () => JSON.parse(sealer.open({ keyId, sealed }, boundTo(row.id)).toString()) };
}

/** Stores an App that GitHub has created. @returns false when there already is one, because another user was faster. */
export async function createGithubApp(
  db: Db,
  sealer: Sealer,
  owner: { organizationId: string; actor: string },
  made: Pick<GithubAppRow, "app_id" | "name" | "url" | "page_url"> & { secrets: GithubAppSecrets },
): Promise<boolean> {
  const { secrets, app_id, name, url, page_url } = made;
  const id = randomUUID();
  const { keyId, sealed } = sealer.seal(Buffer.from(JSON.stringify(secrets)), boundTo(id));
  const note = { actor: owner.actor, action: "github_app.create", details: { app_id, url } };
  return db.transaction(async (trx) => {
    const { rowCount } = await trx.query(sql`
      insert into github_app (id, app_id, name, url, page_url, has_webhook, data_key_id, sealed, actor)
      values (${id}, ${app_id}, ${name}, ${url}, ${page_url}, ${secrets.webhookSecret !== null}, ${keyId}, ${sealed},
        ${owner.actor})
      on conflict (is_only) do nothing`);
    if (rowCount === 0) return false;
    await trx.query(audited({ organizationId: owner.organizationId, workspaceId: null, id, name }, note));
    return true;
  });
}

/** Deletes the App. @returns whether there was one. */
export async function deleteGithubApp(db: Db, owner: { organizationId: string; actor: string }): Promise<boolean> {
  return db.transaction(async (trx) => {
    const { rows } = await trx.query<GithubAppRow>(sql`delete from github_app returning id, name, app_id, url`);
    const [row] = rows;
    if (row === undefined) return false;
    const { id, name, app_id, url } = row;
    const note = { actor: owner.actor, action: "github_app.delete", details: { app_id, url } };
    await trx.query(audited({ organizationId: owner.organizationId, workspaceId: null, id, name }, note));
    return true;
  });
}

/** A request for an App, and its actor. */
export interface GithubAppLink {
  organizationId: string;
  actor: string;
  url: string;
  /** GitHub organization that will own it; null: the user who opens the link. */
  account: string | null;
  name: string;
  isPublic: boolean;
}

/** GitHub's code for a created App is valid for the same time. */
const linkLifeMs = 3_600_000;

/** Creates a link. @returns the state, of which only the digest is stored. */
export async function createGithubAppLink(
  db: Db,
  { keyId, ...link }: GithubAppLink & { keyId: string },
): Promise<{ state: string; expiresAt: Date }> {
  const state = randomBytes(32).toString("base64url");
  const expiresAt = new Date(db.now().getTime() + linkLifeMs);
  await db.query(sql`
    with old as (delete from github_app_links where expires_at < now())
    insert into github_app_links (state_digest, key_id, organization_id, actor, url, account, name, is_public, expires_at)
    values (${digestOf(state)}, ${keyId}, ${link.organizationId}, ${link.actor}, ${link.url}, ${link.account},
      ${link.name}, ${link.isPublic}, ${expiresAt})`);
  return { state, expiresAt };
}

/** Returns a link; undefined: unknown, used or expired, or its creator's key is no longer valid. */
export async function findGithubAppLink(db: Db, state: string): Promise<GithubAppLink | undefined> {
  const { rows } = await db.query<GithubAppLink>(sql`
    select ${linkColumns} from github_app_links l join api_keys k on k.id = l.key_id
     where ${isGood(state)}`);
  return rows[0];
}

/** Consumes a link. */
export async function consumeGithubAppLink(db: Db, state: string): Promise<GithubAppLink | undefined> {
  const { rows } = await db.query<GithubAppLink>(sql`
    delete from github_app_links l using api_keys k where k.id = l.key_id and ${isGood(state)}
    returning ${linkColumns}`);
  return rows[0];
}

const linkColumns = sql.raw(
  `l.organization_id as "organizationId", l.actor, l.url, l.account, l.name, l.is_public as "isPublic"`,
);

const isGood = (state: string) => sql`
  l.state_digest = ${digestOf(state)} and l.expires_at > now()
  and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())`;

const digestOf = (state: string) => createHash("sha256").update(state).digest();
const boundTo = (id: string) => `github-app/${id}`;
