import { findDataDir } from "../connection.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";

/** Brings the tables up to date without starting a server: what a release does before its replicas start. */
export async function migrate(session: Session): Promise<void> {
  const { context, terminal } = session;
  const environment = { ...context.env, PIERHEAD_DATA_DIR: findDataDir(session.options, context) };
  const applied = await context.migrate(environment).catch((error: Error) => {
    throw new CliFailure("The database was not brought up to date.", { because: error.message });
  });
  terminal.say(applied.length === 0 ? "Nothing to do." : `Applied ${applied.length}.`);
  session.answer({ applied }, () => (applied.length === 0 ? undefined : applied.join("\n")));
}
