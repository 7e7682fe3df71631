import { randomUUID } from "node:crypto";
import { errors } from "../../contract/error.ts";
import type { ListenerLogLevel } from "../../contract/listeners/listener.ts";
import { changesBetween } from "../../domain/audit.ts";
import { checkNamespacesKept } from "../../domain/listener-namespaces.ts";
import type { ListenerCandidate } from "../../domain/placement.ts";
import { batched } from "../engine/batched.ts";
import { type Db, isForeignKeyViolation, isUniqueViolation, type Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import { type AuditNote, audited } from "../tenants/audit.ts";
import { listenersTable } from "./tables.ts";

const listenerFields = pick(
  listenersTable,
  "id",
  "version",
  "compute_id",
  "lease_until",
  "last_seen_at",
  "drain",
  "log_level",
  "labels",
  "created_at",
  "updated_at",
);

/** A listener that belongs to a workspace. */
export interface ListenerRow extends RowOf<typeof listenerFields> {
  tenant_id: string;
  k8s_namespaces: string[] | null;
  image_registry: string | null;
}

/** The workspace and actor of a request: for access to rows and for the audit log. */
interface Owner {
  organizationId: string;
  tenantId: string;
  actor: string;
}

interface NewKey {
  prefix: string;
  hash: Buffer;
}

const columns = sql`${selectList(listenerFields, "l")}, l.tenant_id, l.compute_config -> 'k8s_namespaces' as k8s_namespaces,
  l.facts ->> 'image_registry' as image_registry`;

/** Returns listeners, oldest first, so that pages do not shift when one is added. */
export async function listListeners(
  db: Db,
  tenantId: string,
  page: { limit: number; offset: number },
): Promise<ListenerRow[]> {
  const { rows } = await db.query<ListenerRow>(sql`
    select ${columns} from listeners l where l.tenant_id = ${tenantId} and not l.builtin
     order by l.created_at, l.id limit ${page.limit} offset ${page.offset}`);
  return rows;
}

interface ListenerPlace {
  id: string;
  k8sNamespaces: string[] | null;
  /** It builds images in its cluster. */
  buildsImages: boolean;
}

/** Returns all listeners of a workspace in the form in which a deployment chooses among them. */
export const listListenerNamespaces = batched(async (db, tenantIds: string[]): Promise<ListenerPlace[][]> => {
  const { rows } = await db.query<ListenerPlace & { tenant_id: string }>(sql`
      select l.id, l.tenant_id, l.compute_config -> 'k8s_namespaces' as "k8sNamespaces",
             l.facts ->> 'image_registry' is not null as "buildsImages" from listeners l
       where l.tenant_id = any(${[...new Set(tenantIds)]}::uuid[]) and not l.builtin order by l.created_at, l.id`);
  const places = Map.groupBy(rows, (row) => row.tenant_id);
  return tenantIds.map((tenantId) =>
    (places.get(tenantId) ?? []).map(({ id, k8sNamespaces, buildsImages }) => ({ id, k8sNamespaces, buildsImages })),
  );
});

/** Returns the listeners of a workspace with what a selector needs to choose one, oldest first. */
export async function listListenerCandidates(db: Db, tenantId: string): Promise<ListenerCandidate[]> {
  const { rows } = await db.query<ListenerCandidate>(sql`
    select l.id, l.compute_id as "computeId", l.labels, l.compute_config -> 'k8s_namespaces' as "k8sNamespaces",
           l.facts ->> 'image_registry' is not null as "buildsImages",
           not l.drain and coalesce(l.lease_until > now(), false) as "isConnected",
           (select count(*) from deployments d where d.listener_id = l.id) as deployments
      from listeners l where l.tenant_id = ${tenantId} and not l.builtin order by l.created_at, l.id`);
  return rows;
}

/** Returns a listener; undefined for an unknown one and equally for another workspace's. */
export async function findListener(db: Db | Trx, tenantId: string, id: string): Promise<ListenerRow | undefined> {
  const { rows } = await db.query<ListenerRow>(sql`
    select ${columns} from listeners l where l.id = ${id} and l.tenant_id = ${tenantId} and not l.builtin`);
  return rows[0];
}

/**
 * Writes a listener with its first key.
 * @throws ApiError 409 `listenerTaken`.
 */
export async function createListener(
  db: Db,
  owner: Owner,
  made: {
    computeId: string;
    k8sNamespaces: string[] | null;
    labels: Record<string, string>;
    version: string | null;
    key: NewKey;
  },
): Promise<ListenerRow> {
  const id = randomUUID();
  const details = {
    k8s_namespaces: made.k8sNamespaces,
    ...(Object.keys(made.labels).length > 0 && { labels: made.labels }),
  };
  const note = { action: "listener.create", details };
  try {
    await db.query(sql`
      with listener as (
        insert into listeners (id, tenant_id, compute_type, compute_id, compute_config, version, labels)
        values (${id}, ${owner.tenantId}, 'k8s', ${made.computeId}, ${configOf(made.k8sNamespaces)}, ${made.version},
          ${JSON.stringify(made.labels)})
      ), audit as (${auditedListener(owner, { id, computeId: made.computeId }, note)})
      ${insertedKey(owner, { id, computeId: made.computeId }, made.key)}`);
  } catch (error) {
    if (isUniqueViolation(error, "listeners_tenant_id_compute_id_key")) {
      throw errors.listenerTaken(owner.tenantId, made.computeId);
    }
    throw error;
  }
  return (await findListener(db, owner.tenantId, id)) as ListenerRow;
}

export interface ListenerChange {
  version: string | null;
  k8sNamespaces: string[] | null;
  labels: Record<string, string> | null;
  drain: boolean | null;
  logLevel: ListenerLogLevel | "own" | null;
}

/**
 * Changes a listener.
 * @param change null: unchanged.
 * @throws ApiError 404; 400 `invalidField` for removing a namespace in which agents run.
 */
export async function changeListener(db: Db, owner: Owner, id: string, change: ListenerChange): Promise<ListenerRow> {
  return db.transaction(async (trx) => {
    const before = await lockListener(trx, owner.tenantId, id);
    if (change.k8sNamespaces !== null) checkNamespacesKept(change.k8sNamespaces, await usedNamespaces(trx, id));
    const { version, k8s_namespaces, labels, drain, log_level } = before;
    const logLevel = change.logLevel === "own" ? null : (change.logLevel ?? log_level);
    const after = {
      ...{ version: change.version ?? version, k8s_namespaces: change.k8sNamespaces ?? k8s_namespaces },
      ...{ labels: change.labels ?? labels, drain: change.drain ?? drain, log_level: logLevel },
    };
    const changes = changesBetween({ version, k8s_namespaces, labels, drain, log_level }, after);
    if (Object.keys(changes).length === 0) return before;
    await trx.query(sql`
      with listener as (
        update listeners set version = ${after.version}, compute_config = ${configOf(after.k8s_namespaces)},
               labels = ${JSON.stringify(after.labels)}, drain = ${after.drain}, log_level = ${after.log_level},
               updated_at = now()
         where id = ${id})
      ${auditedListener(owner, { id, computeId: before.compute_id }, { action: "listener.patch", changes })}`);
    return (await findListener(trx, owner.tenantId, id)) as ListenerRow;
  });
}

/**
 * Deletes a listener without deployments, and its keys.
 * @throws ApiError 404; 409 `listenerInUse`.
 */
export async function deleteListener(db: Db, owner: Owner, id: string): Promise<void> {
  try {
    await db.transaction(async (trx) => {
      const { compute_id: computeId } = await lockListener(trx, owner.tenantId, id);
      const bound = await countDeployments(trx, id);
      if (bound > 0) throw errors.listenerInUse(bound);
      await trx.query(sql`
        with ended as (update api_keys set revoked_at = now() where listener_id = ${id} and revoked_at is null
        ), listener as (delete from listeners where id = ${id})
        ${auditedListener(owner, { id, computeId }, { action: "listener.delete" })}`);
    });
  } catch (error) {
    // A deployment was just created on it.
    if (isForeignKeyViolation(error)) throw errors.listenerInUse(1);
    throw error;
  }
}

/**
 * Replaces the key of a listener. The previous key stays valid for `graceMs`, so that the listener can restart without a
 * gap; older keys end at once.
 * @throws ApiError 404.
 */
export async function replaceListenerKey(db: Db, owner: Owner, id: string, replaced: Replacement): Promise<void> {
  await db.transaction((trx) => putKey(trx, owner, id, { ...replaced, action: "listener.replace_key" }));
}

interface Replacement {
  key: NewKey;
  graceMs: number;
}

async function putKey(
  trx: Trx,
  owner: Owner,
  id: string,
  { key, graceMs, action }: Replacement & { action: string },
): Promise<void> {
  const { compute_id: computeId } = await lockListener(trx, owner.tenantId, id);
  await trx.query(sql`
    with ended as (
      update api_keys k
         set revoked_at = case when k.id = n.id then k.revoked_at else now() end,
             expires_at = least(k.expires_at, now() + ${graceMs} * interval '1 millisecond')
        from (select id from api_keys where listener_id = ${id} and revoked_at is null and not one_time
               order by created_at desc, id limit 1) n
       where k.listener_id = ${id} and k.revoked_at is null and not k.one_time
    ), audit as (${auditedListener(owner, { id, computeId }, { action })})
    ${insertedKey(owner, { id, computeId }, key)}`);
}

/**
 * Writes a one-time token that is exchanged for the listener's key. Earlier tokens of the listener become invalid.
 * @returns when the token expires.
 * @throws ApiError 404.
 */
export async function createEnrollment(
  db: Db,
  owner: Owner,
  id: string,
  { token, lifeMs }: { token: NewKey; lifeMs: number },
): Promise<Date> {
  return db.transaction(async (trx) => {
    const { compute_id: computeId } = await lockListener(trx, owner.tenantId, id);
    const { rows } = await trx.query<{ expires_at: Date }>(sql`
      with ended as (
        update api_keys set revoked_at = now() where listener_id = ${id} and one_time and revoked_at is null
      ), audit as (${auditedListener(owner, { id, computeId }, { action: "listener.create_enrollment" })})
      insert into api_keys (id, organization_id, workspace_id, listener_id, name, role, one_time, prefix, hash, expires_at)
      values (${randomUUID()}, ${owner.organizationId}, ${owner.tenantId}, ${id}, ${`enrollment of ${computeId}`},
        'listener', true, ${token.prefix}, ${token.hash}, now() + ${lifeMs} * interval '1 millisecond')
      returning expires_at`);
    return (rows[0] as { expires_at: Date }).expires_at;
  });
}

/**
 * Consumes a token and gives its listener a key, as `replaceListenerKey` does.
 * @throws ApiError 401 when the token was used or has expired.
 */
export async function enrollListener(
  db: Db,
  { tokenId, actor }: { tokenId: string; actor: string },
  replaced: Replacement,
): Promise<void> {
  await db.transaction(async (trx) => {
    const { rows } = await trx.query<{ organization_id: string; workspace_id: string; listener_id: string }>(sql`
      update api_keys set revoked_at = now()
       where id = ${tokenId} and one_time and revoked_at is null and expires_at > now()
      returning organization_id, workspace_id, listener_id`);
    const [token] = rows;
    if (token === undefined) throw errors.invalidToken();
    const owner = { organizationId: token.organization_id, tenantId: token.workspace_id, actor };
    await putKey(trx, owner, token.listener_id, { ...replaced, action: "listener.enroll" });
  });
}

async function lockListener(trx: Trx, tenantId: string, id: string): Promise<ListenerRow> {
  const { rows } = await trx.query<ListenerRow>(sql`
    select ${columns} from listeners l where l.id = ${id} and l.tenant_id = ${tenantId} and not l.builtin
       for update`);
  const [found] = rows;
  if (found === undefined) throw errors.listenerNotFound(id);
  return found;
}

async function countDeployments(trx: Trx, id: string): Promise<number> {
  const { rows } = await trx.query<{ count: number }>(sql`
    select count(*) as count from deployments where listener_id = ${id}`);
  return rows[0]?.count ?? 0;
}

async function usedNamespaces(trx: Trx, id: string): Promise<string[]> {
  const { rows } = await trx.query<{ namespace: string | null }>(sql`
    select distinct source_config #>> '{listener_config,k8s_namespace}' as namespace from deployments
     where listener_id = ${id}`);
  return rows.flatMap(({ namespace }) => namespace ?? []);
}

type Named = { id: string; computeId: string };

const insertedKey = ({ organizationId, tenantId }: Owner, listener: Named, { prefix, hash }: NewKey) => sql`
  insert into api_keys (id, organization_id, workspace_id, listener_id, name, role, prefix, hash)
  values (${randomUUID()}, ${organizationId}, ${tenantId}, ${listener.id}, ${`listener ${listener.computeId}`},
    'listener', ${prefix}, ${hash})`;

const auditedListener = (owner: Owner, { id, computeId }: Named, note: Omit<AuditNote, "actor">) =>
  audited(
    { organizationId: owner.organizationId, workspaceId: owner.tenantId, id, name: computeId },
    { actor: owner.actor, ...note },
  );

const configOf = (k8sNamespaces: string[] | null) =>
  JSON.stringify(k8sNamespaces === null ? {} : { k8s_namespaces: k8sNamespaces });
