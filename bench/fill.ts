import { randomUUID } from "node:crypto";
import type { Db } from "../src/store/engine/database.ts";
import { type Sql, sql } from "../src/store/engine/sql.ts";
import type { Owner } from "./requests.ts";

/** Rows that have a rare value: enough for its first page. */
export const rareRows = 10;

/** Values that requests can filter by. */
export interface Filled {
  /** Shared by a third of all deployments, by one team of many, by ten deployments. */
  tags: { stage: string; team: string; rare: string };
  agentId: string;
  deploymentId: string;
  /** A custom URL has the form `https://agents.example/<number>`. */
  customUrl: string;
  /** Cursor in the middle of the audit log. */
  auditMiddle: number;
}

const words = ["billing", "support", "search", "triage", "intake", "review", "planner", "scout", "digest", "writer"];

/** Most teams and versions. Fewer when each would not fill a first page. */
const groupsMax = 200;
const pageRows = 100;

/** Other workspaces next to the measured one with a million deployments. Together they have a tenth as many. */
const neighboursMax = 100;

/**
 * Inserts settled deployments as in an installation that has run for long. Of `count` in the workspace, nine of ten run on
 * the built-in listener and are READY, one of ten is UNUSED, and one of a thousand is UNKNOWN on a silent cluster. The SQL runs
 * in the database, without secrets. Each deployment gets its revision, a settled queue row, an event and an audit row.
 */
export async function fillDeployments(db: Db, owner: Owner, count: number): Promise<Filled> {
  const groups = Math.min(groupsMax, Math.floor(count / pageRows));
  const clusters = await addListeners(db, owner.workspaceId);
  await addDeployments(db, { owner, clusters, count, groups, salt: "own" });
  await addNeighbours(db, owner, { count: Math.ceil(count / 10), groups });
  const tags = await addTags(db, owner, { count, groups });
  // Autovacuum does the same within minutes.
  await db.query(sql`analyze`);
  await db.query(sql`vacuum deployments`);
  const { rows } = await db.query<Omit<Filled, "tags">>(sql`
    select d.id as "deploymentId", d.agent_id as "agentId",
           (select source_config ->> 'custom_url' from deployments
             where tenant_id = d.tenant_id and source_config ->> 'custom_url' is not null limit 1) as "customUrl",
           (select (min(id) + max(id)) / 2 from audit_log) as "auditMiddle"
      from deployments d where tenant_id = ${owner.workspaceId} and agent_id is not null limit 1`);
  return { tags, ...(rows[0] as Omit<Filled, "tags">) };
}

async function addListeners(db: Db, workspaceId: string): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(sql`
    insert into listeners (id, tenant_id, compute_type, compute_id)
    select gen_random_uuid(), ${workspaceId}::uuid, 'k8s', 'cluster-' || n from generate_series(1, 20) n returning id`);
  return rows.map(({ id }) => id);
}

interface Wanted {
  owner: Owner;
  /** Listeners that one of ten deployments is spread over. Empty: all use the built-in one. */
  clusters: string[];
  count: number;
  groups: number;
  /** Makes ids and slugs unique between calls. */
  salt: string;
}

/** Rows per statement, because statements have a time limit. */
const batchRows = 10_000;

async function addDeployments(db: Db, wanted: Wanted): Promise<void> {
  for (let left = wanted.count; left > 0; left -= batchRows) {
    await db.query(sql`
      with d as (${insertedDeployments(wanted, { from: left, to: Math.max(1, left - batchRows + 1) })} returning *),
      revision as (
        insert into revisions (id, tenant_id, deployment_id, status, source, source_config, source_revision_config, image_version, created_at)
        select latest_revision_id, tenant_id, id, 'DEPLOYED', source, source_config, source_revision_config, image_version, created_at from d
      ), queue as (insert into reconcile_queue (deployment_id) select id from d
      ), event as (
        insert into events (tenant_id, deployment_id, revision_id, kind, data, created_at)
        select tenant_id, id, latest_revision_id, 'revision.status', '{"from":"DEPLOYING","to":"DEPLOYED"}', created_at from d
      )
      insert into audit_log (organization_id, tenant_id, actor, action, deployment_id, subject_id, subject_name, created_at)
      select w.organization_id, d.tenant_id, 'key:' || d.tenant_id, 'deployment.create', d.id, d.id, d.name, d.created_at
        from d join workspaces w on w.id = d.tenant_id`);
    // Foreign key checks of the next inserts are planned once the tables have rows, and not again for each of a hundred workspaces.
    if (left === wanted.count && wanted.clusters.length > 0) await db.query(sql`analyze`);
  }
}

/** The newest deployment is number 1 and is inserted last. */
function insertedDeployments(
  { owner, clusters, count, groups, salt }: Wanted,
  { from, to }: { from: number; to: number },
): Sql {
  const isRare = sql`n % ${sql.literal(Math.max(1, Math.floor(count / rareRows)))} = 0`;
  const type = sql`case when ${isRare} then 'dev_free' when n % 5 = 0 then 'dev' when n % 2 = 0 then 'prod' end`;
  const onCluster = clusters.length === 0 ? sql`false` : sql`n % 10 = 1`;
  return sql`
    insert into deployments (id, tenant_id, listener_id, name, slug, source, source_config, source_revision_config, status,
      latest_revision_id, active_revision_id, image_version, agent_id, agent_environment, created_at, updated_at)
    select md5(${salt} || n)::uuid, ${owner.workspaceId}::uuid,
           case when ${onCluster} then (${clusters}::uuid[])[1 + n / 10 % ${sql.literal(Math.max(1, clusters.length))}] else ${owner.listenerId}::uuid end,
           (${words}::text[])[1 + n % ${sql.literal(words.length)}] || '-t' || lpad((n % ${sql.literal(groups)})::text, 3, '0') || '-agent-' || lpad(n::text, 7, '0'),
           ${salt} || '-' || n, 'external_docker',
           jsonb_strip_nulls(jsonb_build_object('resource_spec', ${spec}::jsonb, 'deployment_type', ${type},
             'custom_url', case when ${isRare} then 'https://agents.example/' || n end)),
           jsonb_build_object('image_uri', 'registry.example/team/agent:1.4.' || n % 50),
           case when n % 1000 = 1 and ${onCluster} then 'UNKNOWN' when n % 10 = 7 then 'UNUSED' else 'READY' end,
           md5(${salt} || 'revision' || n)::uuid, md5(${salt} || 'revision' || n)::uuid,
           case when ${isRare} then '0.0.1-rc.1' else '0.4.' || n % ${sql.literal(groups)} end,
           case when n % 10 = 3 then md5(${salt} || 'agent' || n)::uuid end,
           case when n % 10 = 3 then case when ${isRare} then 'staging' else 'production' end end,
           now() - n * interval '10 seconds', now() - (n::bigint * 7919 % ${sql.literal(count)}) * interval '10 seconds'
      from generate_series(${sql.literal(from)}, ${sql.literal(to)}, -1) n`;
}

const spec = JSON.stringify({ cpu: 1, memory_mb: 1_024, min_scale: 1, max_scale: 1 });

async function addNeighbours(
  db: Db,
  { workspaceId, listenerId }: Owner,
  { count, groups }: { count: number; groups: number },
): Promise<void> {
  const neighbours = Math.min(neighboursMax, Math.ceil(count / 1_000));
  const { rows } = await db.query<{ id: string }>(sql`
    insert into workspaces (id, organization_id, name)
    select gen_random_uuid(), w.organization_id, 'neighbour-' || n from workspaces w, generate_series(1, ${sql.literal(neighbours)}) n
     where w.id = ${workspaceId} returning id`);
  for (const { id } of rows) {
    const owner = { workspaceId: id, listenerId };
    const each = Math.ceil(count / neighbours);
    await addDeployments(db, { owner, clusters: [], count: each, groups, salt: id });
  }
}

async function addTags(
  db: Db,
  { workspaceId }: Owner,
  { count, groups }: { count: number; groups: number },
): Promise<Filled["tags"]> {
  const key = async (name: string, values: string[]): Promise<string[]> => {
    const ids = values.map(() => randomUUID());
    await db.query(sql`
      with made as (insert into tag_keys (id, tenant_id, name) values (gen_random_uuid(), ${workspaceId}, ${name}) returning id)
      insert into tag_values (id, tag_key_id, name)
      select v.id, made.id, v.name from made, unnest(${ids}::uuid[], ${values}::text[]) as v (id, name)`);
    return ids;
  };
  const stages = await key("stage", ["dev", "staging", "prod"]);
  const teams = await key(
    "team",
    Array.from({ length: groups }, (_, index) => `team-${index}`),
  );
  const rare = await key("audit", ["open"]);
  const tag = async (ids: string[], step: number) => {
    for (let from = step; from <= count; from += batchRows) {
      await db.query(sql`
        insert into deployment_tags (deployment_id, tag_value_id)
        select md5('own' || n)::uuid, (${ids}::uuid[])[1 + n / ${sql.literal(step)} % ${sql.literal(ids.length)}]
          from generate_series(${sql.literal(from)}, ${sql.literal(Math.min(count, from + batchRows - 1))}) n
         where n % ${sql.literal(step)} = 0`);
    }
  };
  await tag(stages, 1);
  await tag(teams, 1);
  await tag(rare, Math.max(1, Math.floor(count / rareRows)));
  return { stage: stages[2] as string, team: teams[teams.length - 1] as string, rare: rare[0] as string };
}
