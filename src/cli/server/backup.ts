import { createWriteStream } from "node:fs";
import { access, mkdtemp, rename, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { findDataDir } from "../connection.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";
import { count } from "../terminal/text.ts";

/** Writes the installation into a file, completely or not at all; or to stdout. */
export async function backUp(session: Session, [given]: string[]): Promise<void> {
  const client = await session.client();
  if (given === "-") {
    if (session.context.stdout.isTTY === true) {
      throw usageFailure("A backup is no text.", "Send it to a file: pierhead backup - > backup.tar.gz");
    }
    const archive = await client.downloadBackup(session.signal);
    await pipeline(Readable.fromWeb(archive), session.context.stdout, { end: false });
    return sayMissing(session);
  }
  const moment = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const file = path.resolve(session.context.cwd, given ?? `pierhead-${moment}.tar.gz`);
  const draft = `${file}.partial`;
  try {
    const archive = await client.downloadBackup(session.signal);
    // In a directory of all users, another one may have created the file or a link of this name.
    await rm(draft, { force: true });
    await pipeline(Readable.fromWeb(archive), createWriteStream(draft, { flags: "wx", mode: 0o600 }));
    await rename(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
  const { size } = await stat(file);
  sayMissing(session);
  session.answer({ file, bytes: size }, () => harmless(file));
}

function sayMissing({ terminal }: Session): void {
  terminal.say(
    "The backup does not contain the master key. Store the key separately: encrypted values cannot be read without it.",
  );
  terminal.say(
    "It does not contain the data of agents either: state/ in the server's data directory, and their databases.",
  );
}

/** Restores a backup into the empty database from the environment. */
export async function restore(session: Session, [given = ""]: string[]): Promise<void> {
  const { context, terminal, signal } = session;
  await using source = await sourceOf(session, given);
  const environment = { ...context.env, PIERHEAD_DATA_DIR: findDataDir(session.options, context) };
  const restored = await context.restore(environment, source.file, signal).catch((error: Error) => {
    throw new CliFailure("Nothing was restored.", { because: error.message });
  });
  const { madeAt: made_at, deployments, redeployed } = restored;
  terminal.say(`Restored ${count(deployments, "deployment")} as of ${made_at}. Start the server: pierhead up`);
  if (redeployed > 0) terminal.say(`The server redeploys ${redeployed} of them, and rebuilds missing artifacts.`);
  session.answer({ made_at, deployments, redeployed }, () => undefined);
}

/** Returns the file of a backup. That of stdin is stored for the time of the restore, because it is read more than once. */
async function sourceOf({ context, signal }: Session, given: string): Promise<{ file: string } & AsyncDisposable> {
  if (given.startsWith("bucket:")) return { file: given, [Symbol.asyncDispose]: async () => {} };
  if (given !== "-") {
    const file = path.resolve(context.cwd, given);
    await access(file).catch((error: Error) => {
      throw usageFailure(`Cannot read the file ${given}: ${error.message}`);
    });
    return { file, [Symbol.asyncDispose]: async () => {} };
  }
  if (context.stdin.isTTY === true) {
    throw usageFailure("A backup is no text.", "Read it from a file: pierhead restore - < backup.tar.gz");
  }
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-restore-"));
  const remove = () => rm(directory, { recursive: true, force: true });
  const file = path.join(directory, "backup.tar.gz");
  try {
    await pipeline(context.stdin, createWriteStream(file, { mode: 0o600 }), { signal });
  } catch (error) {
    await remove();
    throw error;
  }
  return { file, [Symbol.asyncDispose]: remove };
}
