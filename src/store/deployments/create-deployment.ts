import type { SourceConfig, SourceRevisionConfig } from "../../contract/deployments/deployment.ts";
import { errors } from "../../contract/error.ts";
import { nameOfAgent } from "../../domain/names.ts";
import { replicasOf } from "../../domain/sizes.ts";
import { tracingProjectId } from "../../domain/tracing.ts";
import { batched } from "../engine/batched.ts";
import type { Db } from "../engine/database.ts";
import { isForeignKeyViolation, isUniqueViolation } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { enqueued } from "../queue/enqueue.ts";
import { insertedRevision, type NewRevision } from "../revisions/revisions.ts";
import { insertedSecretSet, type SealedSet, secretSetColumns } from "../secrets/secrets.ts";
import { type AuditNote, auditColumns, auditedRows } from "../tenants/audit.ts";
import { insertedResponses, responseColumns, type SealedResponse } from "../tenants/idempotency-keys.ts";
import { checkNewDeployment, hasQuotas } from "../tenants/quotas.ts";
import { agentColumns } from "./agent-columns.ts";
import type { DeploymentRow } from "./deployments.ts";
import { insertedTracingProject, type NewTracingProject, tracingColumns } from "./tracing-projects.ts";

export interface NewDeployment
  extends Pick<DeploymentRow, "id" | "tenant_id" | "listener_id" | "agents_url" | "name" | "slug" | "source"> {
  source_config: SourceConfig;
  source_revision_config: SourceRevisionConfig;
  tracked_ref: string | null;
  secret_references: DeploymentRow["secret_references"];
  shareable: boolean;
  route_through_gateway: boolean;
  agent_id: string | null;
  agent_environment: string | null;
  secrets: SealedSet | null;
  /** Written in the same statement; null for sources that still wait for an image or a tarball. */
  revision: NewRevision | null;
  tracing: NewTracingProject;
  actor: string;
  /** The deployment that this one is a preview of. */
  parent_deployment_id?: string;
}

/**
 * Writes a deployment with its first revision, secrets, event, audit row and queue entry in one statement: one commit and
 * one fsync, shared with the deployments that are created at the same time. In a workspace with quotas, the quotas are
 * checked first, in the same transaction.
 * @param responseFor builds the response that a repeated request gets; it is saved in the same statement.
 * @returns the row as it was written; it may have changed since.
 * @throws ApiError 409 when the name or the agent environment is taken; 400 `quotaExceeded`.
 */
export async function createDeployment(
  db: Db,
  made: NewDeployment,
  responseFor: (row: DeploymentRow) => SealedResponse | null = () => null,
): Promise<DeploymentRow> {
  const row = newRow(made, db.now());
  const response = responseFor(row);
  try {
    if (!(await insertDeployment(db, { made, row, response, isChecked: false }))) {
      await db.transaction(async (trx) => {
        await checkNewDeployment(trx, made.tenant_id, replicasOf(made.source_config));
        await insertDeployment(trx, { made, row, response, isChecked: true });
      });
    }
  } catch (error) {
    const { name, agent_id: agentId, agent_environment: environment } = made;
    const isNameTaken = isUniqueViolation(error, "deployments_tenant_id_name_key");
    // A deployment that got its name from its agent reports the agent environment as taken, not the name.
    const isNamedByAgent = agentId !== null && environment !== null && name === nameOfAgent(agentId, environment);
    if (isNameTaken && !isNamedByAgent) throw errors.nameTaken(name);
    if (isNameTaken || isAgentTaken(error)) throw errors.agentEnvironmentTaken();
    if (isForeignKeyViolation(error, "deployments_listener_id_fkey")) {
      throw errors.invalidField("source_config.listener_id", `${made.listener_id} was deleted in the meantime.`);
    }
    // The workspace was deleted a moment ago.
    if (isForeignKeyViolation(error, "deployments_tenant_id_fkey")) throw errors.forbidden();
    // Another workspace has just taken the name in the tracing backend: try again with the other name.
    if (isUniqueViolation(error, "tracing_projects_project")) return createDeployment(db, made, responseFor);
    throw error;
  }
  db.reached("deployment created");
  db.changes.wake();
  return row;
}

const isAgentTaken = (error: unknown) =>
  isUniqueViolation(error, "deployments_agent") || isUniqueViolation(error, "deployments_agent_name");

/** Built before it is written, so that its response can be saved in the same statement. Its times therefore come from `now`. */
function newRow(
  { secrets, revision, tracing: _tracing, actor: _actor, ...made }: NewDeployment,
  now: Date,
): DeploymentRow {
  return {
    ...made,
    display_name: null,
    tracked_packages: null,
    secret_set_id: secrets?.id ?? null,
    status: "AWAITING_DATABASE",
    health: "deploying",
    health_since: now,
    health_reason: null,
    health_message: null,
    health_failure: null,
    can_roll_back: false,
    latest_revision_id: revision?.id ?? null,
    active_revision_id: null,
    image_version: null,
    deployment_tier: null,
    compute_tier: null,
    database_tier: null,
    is_preview: made.parent_deployment_id !== undefined,
    parent_deployment_id: made.parent_deployment_id ?? null,
    tracer_session_id: tracingProjectId(made.tenant_id, made.name),
    created_at: now,
    updated_at: now,
    sealed_secrets: secrets?.sealed ?? null,
    secrets_key_id: secrets?.dataKeyId ?? null,
  };
}

interface Insert {
  made: NewDeployment;
  row: DeploymentRow;
  response: SealedResponse | null;
  /** Whether the quotas of its workspace allow it. */
  isChecked: boolean;
}

/** Returns false, and writes nothing, when the workspace has quotas and the deployment was not checked. */
const insertDeployment = batched(async (db, inserts: Insert[]): Promise<boolean[]> => {
  const wanted = inserts.map(
    ({ made, row: { sealed_secrets: _, secrets_key_id: __, ...deployment }, response, isChecked }) => ({
      id: made.id,
      deployment: { ...deployment, ...agentColumns(deployment.agent_id) },
      is_checked: isChecked,
      secret_set: secretSetColumns(made.secrets),
      revision: made.revision,
      tracing: tracingColumns(made.tracing, made),
      answer: responseColumns(response),
      subject_name: made.name,
      ...auditColumns(createNote(made)),
    }),
  );
  const { rows } = await db.query<{ deployment_id: string }>(sql`
    with wanted as (
      select * from jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb)
        as w (id uuid, deployment jsonb, is_checked boolean, secret_set jsonb, revision jsonb, tracing jsonb, answer jsonb,
              subject_name text, actor text, action text, noted jsonb)
    ), deployment as (
      insert into deployments (id, tenant_id, listener_id, name, slug, source, source_config, source_revision_config,
        tracked_ref, secret_references, secret_set_id, status, health, health_since, latest_revision_id, shareable, route_through_gateway,
        agent_id, agent_name, agent_environment, tracer_session_id, is_preview, parent_deployment_id, created_at, updated_at)
      select d.id, d.tenant_id, d.listener_id, d.name, d.slug, d.source, d.source_config, d.source_revision_config,
             d.tracked_ref, d.secret_references, d.secret_set_id, d.status, d.health, d.health_since, d.latest_revision_id, d.shareable,
             d.route_through_gateway, d.agent_id, d.agent_name, d.agent_environment, d.tracer_session_id, d.is_preview,
             d.parent_deployment_id, d.created_at, d.updated_at
        from wanted w, jsonb_populate_record(null::deployments, w.deployment) d
       where w.is_checked or not ${hasQuotas("d.tenant_id")}
      returning id as deployment_id, tenant_id
    ), made as (
      select d.deployment_id, d.tenant_id, w.* from deployment d join wanted w on w.id = d.deployment_id
    ), secret_set as (${insertedSecretSet("made")}
    ), revision as (${insertedRevision("made")}
    ), tracing as (${insertedTracingProject("made")}
    ), kept as (${insertedResponses("made")}
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, (revision ->> 'id')::uuid, 'deployment.created', '{}' from made
    ), audit as (${auditedRows("made")}
    ), ${enqueued("deployment")}
    select deployment_id from deployment`);
  const written = new Set(rows.map((row) => row.deployment_id));
  return inserts.map(({ made }) => written.has(made.id));
});

const createNote = ({ actor, source, revision }: NewDeployment): AuditNote => ({
  actor,
  action: "deployment.create",
  details: { source, ...(revision !== null && { revision_id: revision.id }) },
});
