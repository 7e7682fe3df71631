import { randomBytes } from "node:crypto";
import { batched } from "../engine/batched.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import type { RevisionRow } from "../revisions/revisions.ts";
import type { SealedColumn, Sealer } from "../secrets/seal.ts";

/** none: nothing is configured. container: servers of its own. custom: the deployment brings its own. */
export type DatabaseKind = "none" | "shared" | "container" | "custom";

export interface DeploymentDatabase {
  postgres: DatabaseKind;
  redis: DatabaseKind;
  /** Password of the role and user created for this deployment. */
  password: string;
}

interface Owner {
  id: string;
  tenantId: string;
}

export const sealedPasswords: SealedColumn = {
  ...{ table: "deployment_databases", id: "deployment_id", keyColumn: "data_key_id", column: "sealed" },
  boundBy: ["tenant_id", "deployment_id"],
  boundTo: ({ tenant_id, deployment_id }) => boundTo({ tenantId: tenant_id, id: deployment_id } as Owner),
};

/** Records, before anything is created, what will be created. A second call returns the first decision. */
export async function planDeploymentDatabase(
  db: Db,
  sealer: Sealer,
  deployment: Owner,
  kinds: { postgres: DatabaseKind; redis: DatabaseKind },
): Promise<DeploymentDatabase> {
  const { keyId, sealed } = sealer.seal(newPassword(), boundTo(deployment));
  await db.query(sql`
    insert into deployment_databases (deployment_id, tenant_id, postgres, redis, data_key_id, sealed)
    values (${deployment.id}, ${deployment.tenantId}, ${kinds.postgres}, ${kinds.redis}, ${keyId}, ${sealed})
    on conflict (deployment_id) do nothing`);
  return (await findDeploymentDatabase(db, sealer, deployment)) as DeploymentDatabase;
}

export async function findDeploymentDatabase(
  db: Db | Trx,
  sealer: Sealer,
  deployment: Owner,
): Promise<DeploymentDatabase | undefined> {
  const { rows } = await db.query<{
    postgres: DatabaseKind;
    redis: DatabaseKind;
    data_key_id: string;
    sealed: Buffer;
  }>(sql`
    select postgres, redis, data_key_id, sealed from deployment_databases where deployment_id = ${deployment.id}`);
  const row = rows[0];
  if (row === undefined) return undefined;
  const password = sealer.open({ keyId: row.data_key_id, sealed: row.sealed }, boundTo(deployment)).toString();
  return { postgres: row.postgres, redis: row.redis, password };
}

type Kinds = Pick<DeploymentDatabase, "postgres" | "redis">;

/** Returns the kinds without the password; undefined while nothing is decided. Concurrent calls share one statement. */
export const findDatabaseKinds = batched(async (db, ids: string[]): Promise<(Kinds | undefined)[]> => {
  const { rows } = await db.query<Kinds & { deployment_id: string }>(sql`
    select deployment_id, postgres, redis from deployment_databases
    where deployment_id = any(${ids}::uuid[])`);
  const found = new Map(rows.map(({ deployment_id, ...kinds }) => [deployment_id, kinds]));
  return ids.map((id) => found.get(id));
});

/** The settings that decide the kind and size of a deployment's databases. */
export interface DatabaseSettingsRow extends Pick<RevisionRow, "source_config" | "secret_set_id"> {
  sizes?: RevisionRow["sizes"];
}

/** Returns the current settings of a deployment with the variables and sizes of its latest revision; undefined when it is gone. */
export async function readDatabaseSettings(db: Db, deploymentId: string): Promise<DatabaseSettingsRow | undefined> {
  const { rows } = await db.query<DatabaseSettingsRow>(sql`
    select d.source_config, coalesce(r.secret_set_id, d.secret_set_id) as secret_set_id, r.sizes
      from deployments d left join revisions r on r.id = d.latest_revision_id
     where d.id = ${deploymentId}`);
  return rows[0];
}

export interface DefaultEngine {
  engine: "postgres";
  /** Whether the deployment serves from it, and so has its threads there. */
  isServing: boolean;
}

/**
 * Returns the engine of LangGraph.js projects that name none; null: files. A deployment that serves from files stays on them:
 * its packages did not fit, or a user chose files. A preview follows its parent.
 */
export async function readDefaultEngine(db: Db, deploymentId: string): Promise<DefaultEngine | null> {
  const { rows } = await db.query<DefaultEngine>(sql`
    select d.default_engine as engine, a.manifest ->> 'engine' is not distinct from d.default_engine as "isServing"
      from deployments d left join revisions r on r.id = d.active_revision_id left join artifacts a on a.id = r.artifact_id
           left join deployments p on p.id = d.parent_deployment_id
     where d.id = ${deploymentId} and d.default_engine is not null and a.manifest ->> 'engine' is distinct from 'file'
       and (p.id is null or p.default_engine is not null)`);
  return rows[0] ?? null;
}

const boundTo = (deployment: Owner) => `database/${deployment.tenantId}/${deployment.id}`;

/** Returns 256 random bits in characters that need no escaping in a URL. */
const newPassword = () => Buffer.from(randomBytes(32).toString("base64url"));
