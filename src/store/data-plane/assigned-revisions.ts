import type { AgentRef, SourceConfig, SourceRevisionConfig } from "../../contract/deployments/deployment.ts";
import type { Artifact } from "../../contract/listeners/assignment.ts";
import type { SecretReference } from "../../contract/listeners/cluster.ts";
import type { Sizes } from "../../domain/tiers.ts";
import { agentId } from "../deployments/agent-columns.ts";
import { batched } from "../engine/batched.ts";
import { sql } from "../engine/sql.ts";

/** The revisions that a listener should run for a deployment; a null id stands for none. */
export interface DesiredAssignment {
  deploymentId: string;
  op: "apply" | "delete";
  targetRevisionId: string | null;
  servingRevisionId: string | null;
}

/** A deployment with one revision of its desired assignment; `revision_id` is null when the assignment names none. */
export interface AssignedRevisionRow {
  deployment_id: string;
  tenant_id: string;
  listener_id: string;
  slug: string;
  namespace: string | null;
  agents_url: string | null;
  name: string;
  shareable: boolean;
  revision_id: string | null;
  source_config: SourceConfig;
  source_revision_config: SourceRevisionConfig;
  agent: AgentRef | null;
  tracing_project: string;
  secret_set_id: string | null;
  secret_references: SecretReference[] | null;
  is_builtin: boolean;
  sizes: Sizes | null;
  manifest: Artifact | null;
}

/**
 * Returns one row for each revision of the assignment, or a single row without a revision when it names none. Empty when
 * the deployment is gone.
 */
export const readAssignedRevisions = batched(
  async (db, assignments: DesiredAssignment[]): Promise<AssignedRevisionRow[][]> => {
    const revisionIds = assignments.flatMap(({ targetRevisionId, servingRevisionId }) => [
      targetRevisionId,
      servingRevisionId,
    ]);
    const { rows } = await db.query<AssignedRevisionRow>(sql`
    select d.id as deployment_id, d.tenant_id, d.listener_id, d.slug, d.name, d.shareable, d.source_config #>> '{listener_config,k8s_namespace}' as namespace, l.facts ->> 'agents_url' as agents_url, l.builtin as is_builtin, r.secret_references, r.id as revision_id, r.source_config,
           r.source_revision_config, r.sizes, a.manifest,
           case when ${agentId} is not null then jsonb_build_object('agent_id', ${agentId}, 'environment', d.agent_environment) end as agent,
           coalesce(t.project, d.name) as tracing_project,
           coalesce(r.secret_set_id, (select b.deployment_id from deployment_databases b where b.deployment_id = d.id)) as secret_set_id
      from deployments d join listeners l on l.id = d.listener_id
      left join tracing_projects t on t.deployment_id = d.id
      left join revisions r on r.deployment_id = d.id and r.id = any(${revisionIds}::uuid[])
      left join artifacts a on a.id = r.artifact_id
     where d.id = any(${assignments.map(({ deploymentId }) => deploymentId)}::uuid[])`);
    const found = Map.groupBy(rows, (row) => row.deployment_id);
    return assignments.map(({ deploymentId }) => found.get(deploymentId) ?? []);
  },
);
