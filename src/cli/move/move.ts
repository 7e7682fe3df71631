import { EngineUnreachable } from "../../compute/docker/engine/engine.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import { DatabaseServerError } from "../../provision/database-server.ts";
import type { RowCounts } from "../../provision/postgres-hold.ts";
import { CliFailure, exitCodes, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { confirm } from "../terminal/prompt.ts";
import { createSteps, type Steps } from "../terminal/steps.ts";
import { harmless } from "../terminal/terminal.ts";
import { count, parseDuration } from "../terminal/text.ts";
import { type AgentDatabase, findDatabase, type Reachable } from "./agent-database.ts";
import { byHand } from "./by-hand.ts";
import { confirmCopy, copyDatabase, findCopy, findHolder, hasTakenOver, letWrite } from "./copy-database.ts";
import { finish, takeBack } from "./end-move.ts";
import { type MovePlan, planMove } from "./plan-move.ts";
import { commandFor, contextOption, type MoveOptions, openSides, type Sides, shownEnd } from "./sides.ts";
import { checkTarget, createTarget, restartTarget, trackBranch, waitForTarget } from "./target.ts";

/**
 * Moves a deployment: creates it at the target, copies its database while the old one refuses writes, and checks it. A second call goes
 * on where the first one ended, because each step finds out from the servers whether it is done.
 */
export async function move(session: Session, [name = ""]: string[], options: MoveOptions): Promise<void> {
  if (options.finish && options.back) throw usageFailure("--finish and --back exclude each other.");
  if (options.finish) return await explained(finish(session, name, options));
  const sides = await openSides(session, name, options);
  if (options.back) return await explained(takeBack(sides));
  return await explained(moveThere(sides));
}

async function moveThere(sides: Sides): Promise<void> {
  const { from, to, source, options } = sides;
  const { terminal } = from;
  const timeoutMs = parseDuration(options.timeout);
  const plan = await planMove(sides);
  await refuseOtherMove(sides, plan.database);
  if (options.dryRun) return answer(sides, { outcome: "planned", plan: plan.lines, text: plan.lines.join("\n") });
  terminal.say(`Moving ${source.name}:`);
  for (const [number, line] of plan.lines.entries()) terminal.say(`  ${number + 1}. ${line}`);
  if (!options.yes) await confirm(from, `Move ${source.name}?`);
  const steps = createSteps(terminal, ["Create", "Copy", "Restart", "Check"]);
  let isComplete = await isMoved(sides, plan);
  let created = sides.target;
  try {
    steps.begin("Create");
    created ??= await createTarget(sides, plan.body);
    const there = { ...sides, target: await waitForTarget({ ...sides, target: created }, { timeoutMs, steps }) };
    const moved = await moveData(there, plan, { timeoutMs, steps });
    steps.begin("Check");
    const target = await checkTarget(there);
    await trackBranch({ to, source, target });
    // Last, because from then on an error no longer releases the old one.
    await moved.confirm();
    isComplete = true;
    steps.finish();
    answerMoved({ ...there, target }, plan, moved.tables);
  } catch (error) {
    if (error instanceof CliFailure && error.isNotice) steps.close();
    else steps.fail();
    // After a complete move callers may write to the target, so that only the user decides.
    const { database } = plan;
    if (database.kind === "reachable" && created !== undefined && !isComplete)
      await letSourceWrite({ ...sides, target: created }, database);
    throw error;
  }
}

/** @throws CliFailure while a move to another target holds the source, because only one of them can have its last rows */
async function refuseOtherMove({ from, source, target }: Sides, database: AgentDatabase): Promise<void> {
  const holder = database.kind === "reachable" ? await findHolder(database, from.signal) : null;
  if (holder === null || holder === target?.id) return;
  throw new CliFailure(`${source.name} is read-only, because it moves to another deployment: ${holder}.`, {
    hints: [`Finish that move or take it back, with its own options: pierhead move ${source.name} ... --back`],
  });
}

type Moved = Sides & { target: Deployment };

/** Whether an earlier call has moved everything. */
async function isMoved({ from, to, source, target, options }: Sides, plan: MovePlan): Promise<boolean> {
  if (target === undefined || plan.database.kind !== "reachable") return false;
  const database = await findDatabase(to, target, { end: "to", kubectl: options.toKubectl });
  if (database.kind !== "reachable") return false;
  const ids = { sourceId: source.id, targetId: target.id, targetRevisionId: target.latest_revision_id ?? "" };
  const copy = await findCopy({ source: plan.database, target: database, ...ids }, from.signal);
  return copy?.revisionId === null;
}

interface MovedData {
  /** null: nothing was copied now. */
  tables: RowCounts | null;
  /** To call when the target was checked. */
  confirm(): Promise<void>;
}

const nothing: MovedData = { tables: null, confirm: async () => {} };

/** Copies the database and restarts the target on it, unless an earlier call did. */
async function moveData(
  sides: Moved,
  plan: MovePlan,
  { timeoutMs, steps }: { timeoutMs: number; steps: Steps },
): Promise<MovedData> {
  const { from, to, source, target, options } = sides;
  const { database: old } = plan;
  if (old.kind === "none" || old.kind === "custom") return nothing;
  const database = await findDatabase(to, target, { end: "to", kubectl: options.toKubectl });
  if (old.kind === "byHand" || database.kind === "byHand") {
    if (!options.continue) throw copyByHand(sides, plan, database);
    steps.begin("Restart");
    await restartTarget(sides, { timeoutMs, steps });
    return nothing;
  }
  if (database.kind !== "reachable") throw noDatabase(sides);
  const ids = { sourceId: source.id, targetId: target.id, targetRevisionId: target.latest_revision_id ?? "" };
  const pair = { source: old, target: database, ...ids };
  const earlier = await findCopy(pair, from.signal);
  // Callers may already write to the target.
  if (earlier?.revisionId === null) return nothing;
  steps.begin("Copy");
  if (earlier === undefined && (await hasTakenOver(pair, from.signal))) throw wouldOverwrite(sides);
  const tables = earlier === undefined ? await copyDatabase(pair, (text) => steps.note(text), from.signal) : null;
  if (earlier === undefined || earlier.revisionId === pair.targetRevisionId) {
    steps.begin("Restart");
    await restartTarget(sides, { timeoutMs, steps });
  }
  return { tables, confirm: () => confirmCopy(pair, from.signal) };
}

function copyByHand(sides: Moved, plan: MovePlan, target: AgentDatabase): CliFailure {
  const lines = byHand(sides, { source: plan.database, target });
  answer(sides, { outcome: "copy_by_hand", plan: plan.lines, text: lines.join("\n") });
  return new CliFailure("Stop the writers, and copy the database with these commands.", {
    exitCode: exitCodes.pending,
    hints: [`Then go on: ${commandFor(sides, "--continue")}`, `Or go back: ${commandFor(sides, "--back")}`],
  });
}

/** Also after Ctrl-C, so the signal of the command does not end it. */
const releaseTimeoutMs = 60_000;

async function letSourceWrite(sides: Moved, database: Reachable): Promise<void> {
  const { from, source, target } = sides;
  try {
    if (!(await letWrite(database, target.id, AbortSignal.timeout(releaseTimeoutMs)))) return;
    from.terminal.say(`${source.name} takes writes again.`);
  } catch (error) {
    from.terminal.say(
      `${source.name} still refuses writes: ${harmless(String((error as Error).message))}\n` +
        `Let it take writes again: ${commandFor(sides, "--back")}`,
    );
  }
}

const noDatabase = (sides: Moved) =>
  new CliFailure(`${sides.target.name} has no PostgreSQL to copy into.`, {
    hints: [
      "Set PIERHEAD_AGENT_POSTGRES_URL for the server at the target: docs/guides/databases.md",
      `It counts for new deployments, so delete this one: ${commandFor(sides, "--back")}`,
    ],
  });

const wouldOverwrite = (sides: Moved) =>
  new CliFailure(`An earlier move ended at ${sides.target.name}, and ${sides.source.name} takes writes again.`, {
    because: `Another copy would delete what was written to ${sides.target.name} since.`,
    hints: [
      `Keep ${sides.target.name}: pierhead delete ${sides.source.name}`,
      `Keep ${sides.source.name}: ${commandFor(sides, "--back")}`,
    ],
  });

function answerMoved(sides: Moved, plan: MovePlan, tables: RowCounts | null): void {
  const { from, source, target, options } = sides;
  const { terminal } = from;
  const rows = Object.values(tables ?? {}).reduce((sum, one) => sum + one, 0);
  const copied = tables === null ? "" : ` with ${count(rows, "row")} in ${count(Object.keys(tables).length, "table")}`;
  terminal.say(`${terminal.paintErr("green", "Moved")} ${source.name} to ${target.name}${copied}`);
  const lists = Object.entries(tables ?? {}).map(([name, one]) => ({ name, rows: one }));
  const text = harmless(target.url ?? "");
  answer(sides, { outcome: "moved", plan: plan.lines, text, tables: tables === null ? null : lists });
  terminal.say(
    [
      `  Look      pierhead status ${target.name}${contextOption(options)}`,
      "  Then      lead callers to the new address",
      `  Finish    ${commandFor(sides, options.continue ? "--continue --finish" : "--finish")}`,
      `  Go back   ${commandFor(sides, "--back")}   (what was written at the new address is lost)`,
    ].join("\n"),
  );
}

interface Answer {
  outcome: "planned" | "copy_by_hand" | "moved";
  plan: string[];
  text: string;
  tables?: { name: string; rows: number }[] | null;
}

function answer({ from, source, target }: Sides, { outcome, plan, text, tables = null }: Answer): void {
  const ends = { from: shownEnd(source), to: target === undefined ? null : shownEnd(target) };
  from.answer({ outcome, plan, ...ends, tables }, () => text);
}

/** Converts errors of PostgreSQL and the container engine to failures with their message. */
async function explained(work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) => {
    if (error instanceof DatabaseServerError || error instanceof EngineUnreachable) throw new CliFailure(error.message);
    throw error;
  });
}
