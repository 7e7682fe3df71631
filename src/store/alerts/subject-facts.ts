import { type ExpiringKey, expiredKeyDays, type ServerFacts, type SubjectFacts } from "../../domain/subject-alerts.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { findOldestWorkspace } from "../tenants/tenants.ts";

/** A server whose last measurement is older has stopped, so its state is unknown. */
const measuredMinutesMax = 10;

/** What a server measured of itself since it started. */
export interface MeasuredFacts extends Omit<ServerFacts, "tenantId" | "isDiskFiring"> {
  /** Hosts whose certificates it reads; null: it has not listed them yet. */
  hosts: readonly string[] | null;
}

/**
 * Records what a server measured of itself. Removes servers that are gone. The certificate of a host that it has not read since it
 * started stays as recorded: otherwise each restart would end its alert and raise it again a minute later.
 */
export async function recordServerFacts(
  db: Db,
  { server, name, diskSizeBytes, diskFreeBytes, certificates, hosts }: MeasuredFacts,
): Promise<void> {
  const read = certificates.map(({ host }) => host);
  await db.query(sql`
    with gone as (delete from server_facts where measured_at < now() - interval '1 day' and server <> ${server})
    insert into server_facts as s (server, name, disk_size_bytes, disk_free_bytes, certificates)
    values (${server}, ${name}, ${diskSizeBytes}, ${diskFreeBytes}, ${JSON.stringify(certificates)})
    on conflict (server) do update set name = excluded.name, measured_at = now(), disk_size_bytes = excluded.disk_size_bytes,
      disk_free_bytes = excluded.disk_free_bytes, certificates = excluded.certificates || coalesce((
        select jsonb_agg(c) from jsonb_array_elements(s.certificates) c
         where c ->> 'host' <> all(${read}::text[])
           and (${hosts}::text[] is null or c ->> 'host' = any(${hosts}::text[]))), '[]')`);
}

/** Maximum number of addresses that a server reads, one after the other. */
const agentAddressesMax = 200;

/**
 * Returns the TLS addresses of agents outside the installation's own domains: each `custom_url`, and the domain of each listener,
 * whose agents share a certificate.
 */
export async function listAgentAddresses(db: Db): Promise<{ tenantId: string; url: string }[]> {
  const { rows } = await db.query<{ tenantId: string; url: string }>(sql`
    select l.tenant_id as "tenantId", replace(l.facts ->> 'agents_url', '{slug}', 'certificate') as url
      from listeners l where not l.builtin and l.tenant_id is not null and l.facts ->> 'agents_url' like 'https://{slug}.%'
       and strpos(l.facts ->> 'agents_url', '{namespace:') = 0
    union
    select d.tenant_id, d.source_config ->> 'custom_url' from deployments d where d.source_config ->> 'custom_url' like 'https://%'
     order by 1, 2 limit ${agentAddressesMax}`);
  return rows;
}

/**
 * Returns what rules about servers, certificates and keys need to know. The alerts of the installation, and those of operators'
 * keys, belong to the oldest workspace; those of an organization's keys to the oldest one of the organization.
 * Keys of command lines are left out: their users sign in again.
 * @param keyDays keys that expire later than in so many days are left out.
 */
export async function readSubjectFacts(db: Db, keyDays: number): Promise<SubjectFacts> {
  const now = db.now();
  const home = (await findOldestWorkspace(db))?.workspaceId ?? null;
  if (home === null) return { now, keys: [], servers: [] };
  const { rows: servers } = await db.query<ServerFacts>(sql`
    select ${home}::uuid as "tenantId", s.server, s.name, s.disk_size_bytes as "diskSizeBytes",
           s.disk_free_bytes as "diskFreeBytes", s.certificates,
           exists (select from alerts a where a.tenant_id = ${home} and a.subject_id = s.server and a.kind = 'disk_used'
                      and a.deployment_id is null and a.state = 'firing') as "isDiskFiring"
      from server_facts s where s.measured_at > now() - ${measuredMinutesMax} * interval '1 minute' order by s.server`);
  const { rows: keys } = await db.query<ExpiringKey>(sql`
    select k.id, k.name, k.created_at as "createdAt", k.expires_at as "expiresAt",
           case when k.is_operator then ${home}::uuid else coalesce(k.workspace_id,
             (select w.id from workspaces w where w.organization_id = k.organization_id order by w.created_at, w.id limit 1),
             ${home}::uuid) end as "tenantId"
      from api_keys k
     where k.revoked_at is null and not k.one_time and k.parent_id is null and k.member_id is null
       and k.expires_at between now() - ${expiredKeyDays} * interval '1 day' and now() + ${keyDays} * interval '1 day'
     order by k.expires_at, k.id`);
  return { now, keys, servers };
}
