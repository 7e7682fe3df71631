import { createWriteStream } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { findDataDir } from "../connection.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";

/** Writes the installation into a file, completely or not at all. */
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
  session.terminal.say(
    "The backup does not contain the master key. Store the key separately: encrypted values cannot be read without it.",
  );
  session.terminal.say(
    "It does not contain the data of agents either: state/ in the server's data directory, and their databases.",
  );
  session.answer({ file, bytes: size }, () => harmless(file));
}

/** Restores a backup into the empty database from the environment. */
export async function restore(session: Session, [given = ""]: string[]): Promise<void> {
  const { context, terminal, signal } = session;
  const file = path.resolve(context.cwd, given);
  const environment = { ...context.env, PIERHEAD_DATA_DIR: findDataDir(session.options, context) };
  const restored = await context.restore(environment, file, signal).catch((error: Error) => {
    throw new CliFailure("Nothing was restored.", { because: error.message });
  });
  const { madeAt: made_at, deployments, redeployed } = restored;
  terminal.say(`Restored ${deployments} deployments as of ${made_at}. Start the server: pierhead up`);
  if (redeployed > 0) terminal.say(`The server redeploys ${redeployed} of them, and rebuilds missing artifacts.`);
  session.answer({ made_at, deployments, redeployed }, () => undefined);
}
