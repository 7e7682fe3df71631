import { ServiceContainer } from "../../compute/docker/services/service-container.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import { postgresContainerOf } from "../../provision/container-databases.ts";
import { databaseNameOf } from "../../provision/database-server.ts";
import { isMissingDatabase } from "../../provision/postgres-hold.ts";
import { containerPrograms, localPrograms, type PostgresPrograms } from "../../provision/postgres-programs.ts";
import type { Environment } from "../context.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { podPrograms } from "./pod-programs.ts";

/** A PostgreSQL database that this program reaches. */
export interface Reachable {
  kind: "reachable";
  /** Of the database and of its owner role. */
  name: string;
  /** Runs `act` with PostgreSQL's programs for this database, which `signal` ends. */
  use<T>(signal: AbortSignal, act: (programs: PostgresPrograms) => Promise<T>): Promise<T>;
}

/**
 * The PostgreSQL of a deployment. `custom`: the user's own (`POSTGRES_URI_CUSTOM`), which both ends use. `byHand`: in a cluster, and the
 * user named no context of kubectl.
 */
export type AgentDatabase = Reachable | { kind: "none" } | { kind: "custom" } | { kind: "byHand" };

type End = "from" | "to";

/** Where the operator's PostgreSQL servers are. The target is often another region. */
const adminUrlOf = (env: Environment, end: End) =>
  (end === "to" ? env["PIERHEAD_TARGET_POSTGRES_URL"] : undefined) || env["PIERHEAD_AGENT_POSTGRES_URL"];

/** Where the container engines are. */
const engineHostOf = (env: Environment, end: End) =>
  (end === "to" ? env["PIERHEAD_TARGET_DOCKER_HOST"] : undefined) ||
  env["DOCKER_HOST"] ||
  "unix:///var/run/docker.sock";

/**
 * Finds the PostgreSQL of a deployment.
 * @throws CliFailure if the server has one, but this program was not given its address
 */
export async function findDatabase(
  session: Session,
  { id, name: deployment, secrets, secret_references, source_config: { listener_id: listenerId } }: Deployment,
  { end, kubectl }: { end: End; kubectl: string | undefined },
): Promise<AgentDatabase> {
  const { context, signal } = session;
  const client = await session.client();
  const { desired } = await client.debugDeployment({ deployment_id: id }, { signal });
  const { databases } = desired as { databases?: { postgres: string } | null };
  if (databases === undefined) {
    throw new CliFailure("This server is too old: it does not report where the databases of its agents are.", {
      hints: ["Upgrade it, or move by hand: docs/guides/moving.md"],
    });
  }
  const name = databaseNameOf(id);
  switch (databases?.postgres) {
    case "custom":
      return { kind: "custom" };
    case "shared": {
      const adminUrl = adminUrlOf(context.env, end);
      if (!adminUrl) throw noAddress(deployment, end);
      const use: Reachable["use"] = (ending, act) =>
        act(localPrograms({ adminUrl, name, env: context.env, signal: ending })).catch((error: unknown) => {
          throw isMissingDatabase(error) ? noAddress(deployment, end) : error;
        });
      return { kind: "reachable", name, use };
    }
    case "container":
      return { kind: "reachable", name, use: inContainer(context.env, name, end) };
    default:
      if (listenerId === null) return { kind: "none" };
      // The listener decides about these, and the server may know nothing of them.
      if ([...secrets, ...(secret_references ?? [])].some((one) => ownAddresses.has(one.name)))
        return { kind: "custom" };
      return kubectl === undefined ? { kind: "byHand" } : podDatabase(kubectl, id, context.env);
  }
}

/** Variables by which a deployment in a cluster names a PostgreSQL of its own. */
const ownAddresses = new Set(["POSTGRES_URI_CUSTOM", "POSTGRES_URI", "DATABASE_URI"]);

const noAddress = (deployment: string, end: End) =>
  new CliFailure(`The PostgreSQL server with the database of ${deployment} is not known here.`, {
    hints: [
      end === "from"
        ? "Set PIERHEAD_AGENT_POSTGRES_URL to it, as in the configuration of its server."
        : "Set PIERHEAD_TARGET_POSTGRES_URL to it, as PIERHEAD_AGENT_POSTGRES_URL in the configuration of its server.",
    ],
  });

function inContainer(env: Environment, name: string, end: End): Reachable["use"] {
  const host = engineHostOf(env, end);
  return async (signal, act) => {
    await using container = await ServiceContainer.find(host, postgresContainerOf(name), signal);
    if (container === undefined) {
      throw new CliFailure(`The container engine at ${host} has no database container ${postgresContainerOf(name)}.`, {
        hints: [
          `Run the command on the machine with the engine, or set ${end === "to" ? "PIERHEAD_TARGET_DOCKER_HOST" : "DOCKER_HOST"}.`,
          "By hand: docs/guides/moving.md",
        ],
      });
    }
    return await act(containerPrograms(container, name));
  };
}

function podDatabase(kubectl: string, deploymentId: string, env: Environment): Reachable {
  return {
    kind: "reachable",
    name: "agent",
    use: async (signal, act) => {
      await using programs = await podPrograms({ context: kubectl, deploymentId, env, signal });
      return await act(programs);
    },
  };
}
