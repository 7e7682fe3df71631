import type { Deployment } from "../../contract/deployments/deployment.ts";
import { harmless } from "../terminal/terminal.ts";
import type { AgentDatabase } from "./agent-database.ts";
import type { Sides } from "./sides.ts";

/** Returns the commands that copy a database when one end is in a cluster that this program was given no kubectl context for. */
export function byHand(
  { source, target, options }: Sides & { target: Deployment },
  databases: { source: AgentDatabase; target: AgentDatabase },
): string[] {
  const file = `${source.name}.dump`;
  const read = 'pg_dump -Fc -U "$POSTGRES_USER" "$POSTGRES_DB"';
  const write = 'pg_restore --clean --if-exists --no-owner -U "$POSTGRES_USER" -d "$POSTGRES_DB"';
  return [
    ...(databases.source.kind === "byHand"
      ? [
          `${inPod("OLD", source, options.fromKubectl)} -- sh -c '${changeDatabase("set default_transaction_read_only = on")}'`,
          `${inPod("OLD", source, options.fromKubectl)} -- sh -c '${read}' > ${file}`,
        ]
      : [`pierhead database backup ${source.name} ${file}`]),
    databases.target.kind === "byHand"
      ? `${inPod("NEW", target, options.toKubectl)} -i -- sh -c '${write}' < ${file}`
      : `pierhead database restore ${target.name} ${file} --yes${options.toContext === undefined ? "" : ` --context ${options.toContext}`}`,
  ].map(harmless);
}

/** Returns the command that lets a database take writes again that the commands above made read-only. */
export const releaseByHand = ({ source, options }: Sides): string =>
  harmless(
    `${inPod("OLD", source, options.fromKubectl)} -- sh -c '${changeDatabase("reset default_transaction_read_only")}'`,
  );

/** Changes the default of new sessions and ends the others. A transaction of a read-only database has to say that it writes. */
function changeDatabase(change: string): string {
  const statements = [
    `begin read write; alter database \\"$POSTGRES_DB\\" ${change}; commit`,
    "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
  ];
  return `psql -U "$POSTGRES_USER" -d "$POSTGRES_DB" -c "${statements.join("; ")}"`;
}

const inPod = (end: "OLD" | "NEW", { name, source_config: config }: Deployment, kubectl = `${end}_CONTEXT`) =>
  `kubectl --context ${kubectl} -n ${config.listener_config?.k8s_namespace ?? "NAMESPACE"} exec ${name}-postgres-0`;
