import { type DatabaseServer, databaseNameOf } from "../../provision/database-server.ts";
import type { DeploymentDatabase } from "../../store/deployments/deployment-databases.ts";
import type { ReconcilerStore } from "../store.ts";

/** The servers on which deployments get their own databases. The kind is decided once, when a deployment is new. */
export interface DatabaseServers {
  /** Servers that the operator configured; null for those that are not. */
  shared: Record<Service, DatabaseServer | null>;
  /** One container per deployment; null without a container engine. */
  container: Record<Service, DatabaseServer> | null;
  /** New deployments of the built-in listener get containers. */
  areContainersWanted: boolean;
}

export type Service = "postgres" | "redis";
export type DatabaseKinds = Pick<DeploymentDatabase, Service>;
export const services: readonly Service[] = ["postgres", "redis"];

/** Returns the configured server for a kind; undefined for `none`, `custom` and servers that are not configured. */
export function serverOf(
  databases: DatabaseServers,
  kinds: DatabaseKinds | undefined,
  service: Service,
): DatabaseServer | undefined {
  const kind = kinds?.[service];
  return kind === "shared" || kind === "container" ? (databases[kind]?.[service] ?? undefined) : undefined;
}

/** Returns the services whose data is on servers that are no longer configured. */
export function lostServices(
  databases: DatabaseServers | null,
  kinds: DatabaseKinds | undefined,
): { service: Service; problem: string }[] {
  return services.flatMap((service) => {
    const kind = kinds?.[service];
    const isCreated = kind === "shared" || kind === "container";
    if (!isCreated || (databases !== null && serverOf(databases, kinds, service) !== undefined)) return [];
    const setting = kind === "shared" ? `PIERHEAD_AGENT_${service.toUpperCase()}_URL` : "PIERHEAD_COMPUTE=docker";
    const problem = `This deployment keeps data in ${service} of this installation, which is no longer configured. The operator has to set ${setting} again.`;
    return [{ service, problem }];
  });
}

/**
 * Returns the variables by which an agent server finds its databases (contract 7.2): the ones it brings itself, or the
 * ones that were created for it. Secret.
 */
export async function databaseEnvironment(
  store: Pick<ReconcilerStore, "findDatabase">,
  databases: DatabaseServers | null,
  deployment: { id: string; tenantId: string },
  secrets: Record<string, string>,
): Promise<Record<string, string>> {
  const { POSTGRES_URI_CUSTOM: postgres, REDIS_URI_CUSTOM: redis } = secrets;
  const planned = databases === null ? undefined : await store.findDatabase(deployment);
  const credentials = { name: databaseNameOf(deployment.id), password: planned?.password ?? "" };
  const created = (service: Service) =>
    databases === null ? undefined : serverOf(databases, planned, service)?.environment(credentials);
  return {
    ...(postgres ? { DATABASE_URI: postgres, POSTGRES_URI: postgres } : created("postgres")),
    ...(redis ? { REDIS_URI: redis } : created("redis")),
  };
}
