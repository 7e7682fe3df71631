import { openDatabase } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";

/** Invariants of the tables. Each statement finds the rows that violate it. */
const rules: Record<string, string> = {
  "a revision belongs to a deployment of its workspace": `
    select r.id from revisions r left join deployments d on d.id = r.deployment_id and d.tenant_id = r.tenant_id where d.id is null`,
  "the latest revision is the deployment's newest one": `
    select d.id from deployments d where d.latest_revision_id is distinct from
      (select r.id from revisions r where r.deployment_id = d.id order by r.seq desc limit 1)`,
  "the active revision is one of the deployment's, and was deployed": `
    select d.id from deployments d left join revisions r on r.id = d.active_revision_id and r.deployment_id = d.id
     where d.active_revision_id is not null and r.status is distinct from 'DEPLOYED'`,
  "a deployment or revision refers only to its own secrets": `
    select d.id from deployments d left join secret_sets s on s.id = d.secret_set_id and s.deployment_id = d.id
     where d.secret_set_id is not null and s.id is null
    union all
    select r.id from revisions r left join secret_sets s on s.id = r.secret_set_id and s.deployment_id = r.deployment_id
     where r.secret_set_id is not null and s.id is null`,
  "a deployment runs on a listener of its workspace, or on the built-in one": `
    select d.id from deployments d join listeners l on l.id = d.listener_id where not l.builtin and l.tenant_id <> d.tenant_id`,
  "every deployment has an audit row that names its creator": `
    select d.id from deployments d where not exists
      (select from audit_log a where a.deployment_id = d.id and a.action = 'deployment.create')`,
  "uploads, log lines and tags belong to deployments of their workspace": `
    select u.id from uploads u join deployments d on d.id = u.deployment_id where d.tenant_id <> u.tenant_id
    union all
    select t.deployment_id from deployment_tags t join tag_values v on v.id = t.tag_value_id join tag_keys k on k.id = v.tag_key_id
      join deployments d on d.id = t.deployment_id where d.tenant_id <> k.tenant_id`,
  "keys and members belong to workspaces of their organization": `
    select k.id from api_keys k join workspaces w on w.id = k.workspace_id where w.organization_id <> k.organization_id
    union all
    select m.id from members m join workspaces w on w.id = m.workspace_id where w.organization_id <> m.organization_id`,
  "names are unique in a workspace": `
    select min(id::text)::uuid from deployments group by tenant_id, name having count(*) > 1`,
  "an operator key with the role admin is left": `
    select gen_random_uuid() where not exists
      (select from api_keys where is_operator and role = 'admin' and revoked_at is null)`,
};

/**
 * Checks the tables of a server that has ended.
 * @param accepted Deployments whose creation was answered with 201: each must exist or have a recorded delete.
 * @returns one line per violated invariant.
 */
export async function checkTables(
  dataDir: string,
  accepted: ReadonlySet<string>,
): Promise<{ checked: number; broken: string[] }> {
  const db = await openDatabase({ dataDir, logger: createLogger("silent") });
  try {
    const broken: string[] = [];
    for (const [name, query] of Object.entries(rules)) {
      const { rows } = await db.query<{ id: string }>(sql`${sql.raw(query)}`);
      if (rows.length > 0) broken.push(`${name}: violated by ${rows.length} rows, such as ${rows[0]?.id}`);
    }
    const { rows: lost } = await db.query<{ id: string }>(sql`
      select id from unnest(${[...accepted]}::uuid[]) as made (id)
       where not exists (select from deployments d where d.id = made.id)
         and not exists (select from audit_log a where a.deployment_id = made.id and a.action = 'deployment.delete')`);
    if (lost.length > 0) broken.push(`${lost.length} accepted deployments are lost, such as ${lost[0]?.id}`);
    return { checked: Object.keys(rules).length + 1, broken };
  } finally {
    await db.close();
  }
}
