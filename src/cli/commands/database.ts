import path from "node:path";
import { DatabaseServerError, databaseNameOf } from "../../provision/database-server.ts";
import { type BackupOptions, backUpDatabase, restoreDatabase } from "../../provision/postgres-backup.ts";
import { CliFailure } from "../failure.ts";
import { findDeployment } from "../find-deployment.ts";
import { confirmByName } from "../prompt.ts";
import type { Session } from "../session.ts";
import { harmless } from "../terminal.ts";

/** Writes the PostgreSQL database of a deployment into a file. */
export async function databaseBackup(session: Session, [name = "", given]: string[]): Promise<void> {
  const deployment = await findDeployment(session, name);
  const moment = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const file = path.resolve(
    session.context.cwd,
    given ?? `${deployment.name.replaceAll(/[^\w.-]+/g, "-")}-${moment}.dump`,
  );
  await told(backUpDatabase(optionsOf(session, deployment.id, file)));
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
  await told(restoreDatabase(optionsOf(session, deployment.id, file)));
  session.answer({ deployment_id: deployment.id, file }, () => undefined);
}

function optionsOf({ context, signal }: Session, deploymentId: string, file: string): BackupOptions {
  const adminUrl = context.env["PIERHEAD_AGENT_POSTGRES_URL"];
  if (!adminUrl) {
    throw new CliFailure("PIERHEAD_AGENT_POSTGRES_URL is not set.", {
      hints: ["It names the server that databases of deployments are on, as for the server: an operator has it."],
    });
  }
  return { adminUrl, name: databaseNameOf(deploymentId), file, env: context.env, signal };
}

async function told(work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) => {
    if (error instanceof DatabaseServerError) throw new CliFailure(error.message);
    throw error;
  });
}
