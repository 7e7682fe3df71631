import { isDeepStrictEqual } from "node:util";
import type { GitSettings as Shown } from "../../contract/integrations/git-settings.ts";
import { changesBetween } from "../../domain/audit.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { enqueued } from "../queue/enqueue.ts";
import { auditedDeployment } from "../tenants/audit.ts";

export type GitSettings = Omit<Shown, "followed">;

/** The default settings. */
export const defaultGitSettings: GitSettings = { include_paths: null, exclude_paths: null, preview: null };

export async function findGitSettings(db: Db | Trx, deploymentId: string): Promise<GitSettings | undefined> {
  const { rows } = await db.query<GitSettings>(sql`
    select include_paths, exclude_paths, preview from git_settings where deployment_id = ${deploymentId}`);
  return rows[0];
}

/** Changes the given settings; equal ones write nothing. The caller has checked that the deployment belongs to the workspace. */
export async function changeGitSettings(
  db: Db,
  { id, tenantId, actor }: { id: string; tenantId: string; actor: string },
  change: Partial<GitSettings>,
): Promise<GitSettings> {
  const settings = await db.transaction(async (trx) => {
    await trx.query(sql`select 1 from deployments where id = ${id} for no key update`);
    const before = (await findGitSettings(trx, id)) ?? defaultGitSettings;
    const after = { ...before, ...change };
    if (isDeepStrictEqual(before, after)) return before;
    const note = { actor, action: "deployment.git_settings", changes: changesBetween({ ...before }, { ...after }) };
    await trx.query(sql`
      with settings as (
        insert into git_settings (deployment_id, tenant_id, include_paths, exclude_paths, preview)
        values (${id}, ${tenantId}, ${after.include_paths}, ${after.exclude_paths}, ${after.preview && JSON.stringify(after.preview)})
        on conflict (deployment_id) do update
           set include_paths = excluded.include_paths, exclude_paths = excluded.exclude_paths, preview = excluded.preview,
               updated_at = now()
        returning deployment_id, tenant_id
      ), audit as (${auditedDeployment("settings", note)}
      ), ${enqueued("settings")}
      select 1`);
    return after;
  });
  db.changes.wake();
  return settings;
}
