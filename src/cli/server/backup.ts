import { createWriteStream } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { findDataDir } from "../connection.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";

/** Writes the installation into a file: whole or not at all. */
export async function backUp(session: Session, [given]: string[]): Promise<void> {
  const client = await session.client();
  const moment = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const file = path.resolve(session.context.cwd, given ?? `pierhead-${moment}.tar.gz`);
  const draft = `${file}.partial`;
  try {
    const archive = await client.downloadBackup(session.signal);
    await pipeline(Readable.fromWeb(archive), createWriteStream(draft, { mode: 0o600 }));
    await rename(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
  const { size } = await stat(file);
  session.terminal.say("The master key is not in it: keep that apart, without it sealed values stay closed.");
  session.terminal.say(
    "Nor is what agents keep themselves: state/ in the server's data directory, and their databases.",
  );
  session.answer({ file, bytes: size }, () => harmless(file));
}

/** Fills the database that the environment names, which nobody has used yet. */
export async function restore(session: Session, [given = ""]: string[]): Promise<void> {
  const { context, terminal, signal } = session;
  const file = path.resolve(context.cwd, given);
  const environment = { ...context.env, PIERHEAD_DATA_DIR: findDataDir(session.options, context) };
  const restored = await context.restore(environment, file, signal).catch((error: Error) => {
    throw new CliFailure("Nothing was restored.", { because: error.message });
  });
  const { madeAt: made_at, deployments, redeployed } = restored;
  terminal.say(`Restored ${deployments} deployments as of ${made_at}. Start the server: pierhead up`);
  if (redeployed > 0) terminal.say(`It deploys ${redeployed} of them again, building what is not there any more.`);
  session.answer({ made_at, deployments, redeployed }, () => undefined);
}
