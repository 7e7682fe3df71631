import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { backUpDatabase, restoreDatabase } from "../../provision/postgres-backup.ts";
import {
  countRows,
  countWrites,
  endRestores,
  holdDatabase,
  noteDatabase,
  type RowCounts,
  readHeldState,
  releaseDatabase,
} from "../../provision/postgres-hold.ts";
import { CliFailure } from "../failure.ts";
import { harmless } from "../terminal/terminal.ts";
import type { Reachable } from "./agent-database.ts";

/** The databases of a move with the deployments that they belong to. */
export interface DatabasePair {
  source: Reachable;
  target: Reachable;
  sourceId: string;
  targetId: string;
  /** Newest revision of the target. */
  targetRevisionId: string;
}

/** Comments of the databases, by which a later call knows what the move did. */
const heldPrefix = "pierhead move: read-only, because it moves to deployment ";
const sourceNote = (targetId: string) => heldPrefix + targetId;
const copiedNote = (sourceId: string, { writes, revisionId }: Copied) =>
  `pierhead move: copied from deployment ${sourceId} after ${writes} writes, ${
    revisionId === null ? "and checked" : `before a restart of revision ${revisionId}`
  }`;

/** What the comment of a copied database says. */
interface Copied {
  /** Of the source until then. */
  writes: number;
  /** The newest of the target, which a newer one has to replace. null: that one was checked, and the move is done. */
  revisionId: string | null;
}

function copiedIn(note: string | null, sourceId: string): Copied | undefined {
  const [, writes, revisionId = null] =
    / after (\d+) writes, (?:and checked|before a restart of revision (\S+))$/.exec(note ?? "") ?? [];
  if (writes === undefined) return undefined;
  const copied = { writes: Number(writes), revisionId };
  return note === copiedNote(sourceId, copied) ? copied : undefined;
}

/**
 * Returns what an earlier call copied, if nothing was added at the source since: the copy was complete, and the source has been
 * read-only all the time.
 */
export async function findCopy(pair: DatabasePair, signal: AbortSignal): Promise<Copied | undefined> {
  const { source, target, sourceId, targetId } = pair;
  const held = await source.use(signal, readHeldState);
  if (!held.isHeld || held.note !== sourceNote(targetId)) return undefined;
  const { isHeld, note } = await target.use(signal, readHeldState);
  return isHeld ? undefined : copiedIn(note, sourceId);
}

/** Returns the id of the deployment to which a move holds this database; null: no move does. */
export async function findHolder(source: Reachable, signal: AbortSignal): Promise<string | null> {
  const { note } = await source.use(signal, readHeldState);
  return note?.startsWith(heldPrefix) ? note.slice(heldPrefix.length) : null;
}

/** Whether a complete move ended at this target, so that callers may have written there since. */
export async function hasTakenOver({ target, sourceId }: DatabasePair, signal: AbortSignal): Promise<boolean> {
  const { note } = await target.use(signal, readHeldState);
  return copiedIn(note, sourceId)?.revisionId === null;
}

/** Makes the source read-only, copies it, and compares the rows of each table. The source stays read-only. */
export async function copyDatabase(
  pair: DatabasePair,
  onStep: (text: string) => void,
  signal: AbortSignal,
): Promise<RowCounts> {
  const { source, target, sourceId, targetId, targetRevisionId } = pair;
  onStep("ending writes");
  // The target is read-only first: if it cannot be reached, the source keeps its sessions. New replicas that write would continue runs that
  // the copy contains, before it is compared.
  const note = `pierhead move: read-only until it has the rows of deployment ${sourceId}`;
  await target.use(signal, async (programs) => {
    await endRestores(programs);
    await holdDatabase(programs, { name: target.name, note });
  });
  await source.use(signal, (programs) => holdDatabase(programs, { name: source.name, note: sourceNote(targetId) }));
  const writes = await source.use(signal, countWrites);
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-move-"));
  try {
    const file = path.join(directory, "database.dump");
    onStep("reading");
    await source.use(signal, (programs) => backUpDatabase({ programs, name: source.name, file }));
    onStep("writing");
    await target.use(signal, (programs) => restoreDatabase({ programs, name: target.name, file }));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  onStep("comparing");
  const [rows, copied] = [await source.use(signal, countRows), await target.use(signal, countRows)];
  const different = Object.keys(rows).filter((table) => rows[table] !== copied[table]);
  if (different.length > 0) {
    const lines = different.map(
      (table) => `${harmless(table)}: ${rows[table]} rows, ${copied[table] ?? "no table"} copied`,
    );
    throw new CliFailure("The copy of the database is not complete.", { because: lines.join("\n") });
  }
  await refuseWrites(pair, writes, signal);
  await target.use(signal, (programs) =>
    releaseDatabase(programs, {
      name: target.name,
      note: copiedNote(sourceId, { writes, revisionId: targetRevisionId }),
    }),
  );
  return rows;
}

/**
 * Records that the target is well and has everything. From now on no call copies again, because callers may write there.
 * @throws CliFailure if a session has written to the source since the copy
 */
export async function confirmCopy(pair: DatabasePair, signal: AbortSignal): Promise<void> {
  const { target } = pair;
  const { note } = await target.use(signal, readHeldState);
  const copied = copiedIn(note, pair.sourceId);
  if (copied === undefined) {
    throw new CliFailure("Another call has changed the copied database meanwhile.", {
      hints: ["Wait until no other call moves this deployment, then move again."],
    });
  }
  await refuseWrites(pair, copied.writes, signal);
  const checked = copiedNote(pair.sourceId, { ...copied, revisionId: null });
  await target.use(signal, (programs) => noteDatabase(programs, { name: target.name, note: checked }));
}

async function refuseWrites({ source, targetId }: DatabasePair, writes: number, signal: AbortSignal): Promise<void> {
  const { isHeld, note } = await source.use(signal, readHeldState);
  if (!isHeld || note !== sourceNote(targetId)) {
    throw new CliFailure("The old database takes writes again, so the copy may lack rows.", {
      because: "Another call of this command, or an operator, has released it.",
      hints: ["Wait until no other call moves this deployment, then move again."],
    });
  }
  // PostgreSQL counts from zero again after a crash.
  if ((await source.use(signal, countWrites)) <= writes) return;
  throw new CliFailure("The old database was written to while it was read-only, so the copy lacks rows.", {
    because: "A session of the agent, or an operator, left the read-only mode on purpose.",
    hints: ["Stop that program, then move again."],
  });
}

/**
 * Lets the source take writes again if a move to this target holds it. Another move may have ended well at its own target, and its
 * source must stay as it is.
 * @returns whether it did
 */
export async function letWrite(source: Reachable, targetId: string, signal: AbortSignal): Promise<boolean> {
  return source.use(signal, async (programs) => {
    const { note } = await readHeldState(programs);
    if (note !== sourceNote(targetId)) return false;
    await releaseDatabase(programs, { name: source.name, note: null });
    return true;
  });
}

/** Lets the source take writes again, also if it was made read-only by hand. */
export async function letWriteAgain(source: Reachable, signal: AbortSignal): Promise<void> {
  await source.use(signal, async (programs) => {
    const { isHeld, note } = await readHeldState(programs);
    const isOurs = note?.startsWith(heldPrefix) ?? false;
    if (isHeld || isOurs) await releaseDatabase(programs, { name: source.name, note: isOurs ? null : note });
  });
}
