import path from "node:path";
import { EngineUnreachable } from "../../compute/docker/engine/engine.ts";
import { ServiceContainer } from "../../compute/docker/services/service-container.ts";
import { postgresContainerOf } from "../../provision/container-databases.ts";
import { DatabaseServerError, databaseNameOf } from "../../provision/database-server.ts";
import { backUpDatabase, restoreDatabase } from "../../provision/postgres-backup.ts";
import { containerPrograms, localPrograms, type PostgresPrograms } from "../../provision/postgres-programs.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { confirmByName } from "../terminal/prompt.ts";
import { harmless } from "../terminal/terminal.ts";

/** Backs up the PostgreSQL database of a deployment into a file. */
export async function databaseBackup(session: Session, [name = "", given]: string[]): Promise<void> {
  const deployment = await findDeployment(session, name);
  const moment = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const file = path.resolve(
    session.context.cwd,
    given ?? `${deployment.name.replaceAll(/[^\w.-]+/g, "-")}-${moment}.dump`,
  );
  await explainErrors(
    withPrograms(session, deployment.id, (programs, name) => backUpDatabase({ programs, name, file })),
  );
  session.answer({ deployment_id: deployment.id, file }, () => harmless(file));
}

/** Restores the PostgreSQL database of a deployment from a file. */
export async function databaseRestore(
  session: Session,
  [name = "", given = ""]: string[],
  { yes }: { yes?: boolean },
): Promise<void> {
  const deployment = await findDeployment(session, name);
  const file = path.resolve(session.context.cwd, given);
  session.terminal.say(`The restore replaces the content of the database of ${deployment.name} with ${file}.`);
  if (!yes) await confirmByName(session, "Type the name of the deployment to continue:", deployment.name);
  await explainErrors(
    withPrograms(session, deployment.id, (programs, name) => restoreDatabase({ programs, name, file })),
  );
  session.answer({ deployment_id: deployment.id, file }, () => undefined);
}

/** Runs the programs in the container of the database if there is one, otherwise against the server from the environment. */
async function withPrograms(
  { context, signal }: Session,
  deploymentId: string,
  act: (programs: PostgresPrograms, name: string) => Promise<void>,
): Promise<void> {
  const name = databaseNameOf(deploymentId);
  const { env } = context;
  const isInEngine = env["PIERHEAD_AGENT_DATABASES"] === "containers";
  const host = env["DOCKER_HOST"] || "unix:///var/run/docker.sock";
  await using container = isInEngine ? await ServiceContainer.find(host, postgresContainerOf(name), signal) : undefined;
  // Awaited here, because the container is released when this function ends.
  if (container !== undefined) return await act(containerPrograms(container, name), name);
  const adminUrl = env["PIERHEAD_AGENT_POSTGRES_URL"];
  if (adminUrl) return act(localPrograms({ adminUrl, name, env, signal }), name);
  if (isInEngine) throw new CliFailure(`The container engine at ${host} has no database container of this deployment.`);
  throw new CliFailure("PIERHEAD_AGENT_POSTGRES_URL is not set.", {
    hints: [
      "Set it to the PostgreSQL server with the agents' databases, as in the server's own configuration.",
      "For databases in containers, set PIERHEAD_AGENT_DATABASES=containers on the machine with the container engine.",
    ],
  });
}

/** Converts known errors to failures with their message. */
async function explainErrors(work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) => {
    if (error instanceof DatabaseServerError || error instanceof EngineUnreachable) throw new CliFailure(error.message);
    throw error;
  });
}
