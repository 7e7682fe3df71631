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

/** Writes the PostgreSQL database of a deployment into a file. */
export async function databaseBackup(session: Session, [name = "", given]: string[]): Promise<void> {
  const deployment = await findDeployment(session, name);
  const moment = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const file = path.resolve(
    session.context.cwd,
    given ?? `${deployment.name.replaceAll(/[^\w.-]+/g, "-")}-${moment}.dump`,
  );
  await told(withPrograms(session, deployment.id, (programs, name) => backUpDatabase({ programs, name, file })));
  session.answer({ deployment_id: deployment.id, file }, () => harmless(file));
}

/** Gives the PostgreSQL database of a deployment what a file says. */
export async function databaseRestore(
  session: Session,
  [name = "", given = ""]: string[],
  { yes }: { yes?: boolean },
): Promise<void> {
  const deployment = await findDeployment(session, name);
  const file = path.resolve(session.context.cwd, given);
  session.terminal.say(`What ${deployment.name} keeps in its database is replaced by what ${file} says.`);
  if (!yes) await confirmByName(session, "Type its name to go on:", deployment.name);
  await told(withPrograms(session, deployment.id, (programs, name) => restoreDatabase({ programs, name, file })));
  session.answer({ deployment_id: deployment.id, file }, () => undefined);
}

/** In the container that it is in, where the engine has one; else on the server that the operator names. */
async function withPrograms(
  { context, signal }: Session,
  deploymentId: string,
  act: (programs: PostgresPrograms, name: string) => Promise<void>,
): Promise<void> {
  const name = databaseNameOf(deploymentId);
  const { env } = context;
  const isInEngine = env["PIERHEAD_AGENT_DATABASES"] === "containers";
  const host = env["DOCKER_HOST"] || "unix:///var/run/docker.sock";
  await using room = isInEngine ? await ServiceContainer.find(host, postgresContainerOf(name), signal) : undefined;
  // Awaited: the room is left when this function ends.
  if (room !== undefined) return await act(containerPrograms(room, name), name);
  const adminUrl = env["PIERHEAD_AGENT_POSTGRES_URL"];
  if (adminUrl) return act(localPrograms({ adminUrl, name, env, signal }), name);
  if (isInEngine) throw new CliFailure(`The container engine at ${host} runs no database of this deployment.`);
  throw new CliFailure("PIERHEAD_AGENT_POSTGRES_URL is not set.", {
    hints: [
      "It names the server that databases of deployments are on, as for the server: an operator has it.",
      "Where they are in containers, set PIERHEAD_AGENT_DATABASES=containers on the machine of the engine.",
    ],
  });
}

async function told(work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) => {
    if (error instanceof DatabaseServerError || error instanceof EngineUnreachable) throw new CliFailure(error.message);
    throw error;
  });
}
