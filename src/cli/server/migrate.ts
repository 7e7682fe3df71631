import { findDataDir } from "../connection.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";

/** Migrates the database without starting a server, as a release does before it starts its replicas. */
export async function migrate(session: Session): Promise<void> {
  const { context, terminal } = session;
  const environment = { ...context.env, PIERHEAD_DATA_DIR: findDataDir(session.options, context) };
  const applied = await context.migrate(environment).catch((error: Error) => {
    throw new CliFailure("The database was not migrated.", { because: error.message });
  });
  terminal.say(applied.length === 0 ? "The database is up to date." : `Applied ${applied.length} migrations.`);
  session.answer({ applied }, () => (applied.length === 0 ? undefined : applied.join("\n")));
}
