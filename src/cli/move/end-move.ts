import type { Deployment } from "../../contract/deployments/deployment.ts";
import { findByName } from "../deployments/find-deployment.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { confirm, confirmByName } from "../terminal/prompt.ts";
import { createSteps } from "../terminal/steps.ts";
import { parseDuration } from "../terminal/text.ts";
import { findDatabase, type Reachable } from "./agent-database.ts";
import { releaseByHand } from "./by-hand.ts";
import { findCopy, findHolder, letWriteAgain } from "./copy-database.ts";
import {
  commandFor,
  expectTarget,
  type MoveOptions,
  movedFrom,
  openSides,
  openTarget,
  type Sides,
  shownEnd,
  targetNameOf,
} from "./sides.ts";
import { checkTarget } from "./target.ts";

/** Deletes the old deployment. @throws CliFailure unless the new one has its data and is well */
export async function finish(session: Session, name: string, options: MoveOptions): Promise<void> {
  if (await isFinished(session, name, options)) return;
  const sides = await openSides(session, name, options);
  const { source, from } = sides;
  const target = expectTarget(sides);
  const moved = { ...sides, target: await checkTarget({ ...sides, target }) };
  await refuseUnmoved(moved);
  from.terminal.say(
    `Deleting ${source.name} with its database. ${target.name} serves at ${moved.target.url ?? "its address"}.`,
  );
  if (options.dryRun) return answer(from, "planned", source, moved.target);
  if (!options.yes) await confirmByName(from, "Type the name of the old deployment to delete it:", source.name);
  await remove(from, source, options);
  answer(from, "finished", null, moved.target);
}

/** Whether an earlier call has deleted the old deployment. */
async function isFinished(session: Session, name: string, options: MoveOptions): Promise<boolean> {
  if ((await findByName(await session.client(), name, session.signal)) !== undefined) return false;
  const to = openTarget(session, options);
  const target = await findByName(await to.client(), targetNameOf(name, options), session.signal);
  if (!target?.secrets.some((one) => one.name === movedFrom)) return false;
  session.terminal.say(`${name} is already deleted.`);
  answer(session, "finished", null, target);
  return true;
}

/** @throws CliFailure if the old deployment has data that the new one lacks */
async function refuseUnmoved(sides: Sides & { target: Deployment }): Promise<void> {
  const { from, to, source, target, options } = sides;
  const [old, copy] = [
    await findDatabase(from, source, { end: "from", kubectl: options.fromKubectl }),
    await findDatabase(to, target, { end: "to", kubectl: options.toKubectl }),
  ];
  // Without a database there is nothing to copy, and their own one is the same for both.
  if (old.kind === "none" || old.kind === "custom") return;
  if (copy.kind === "none" || copy.kind === "custom") {
    throw new CliFailure(`${target.name} has no PostgreSQL with the data of ${source.name}.`, {
      hints: [`Delete it anyway: pierhead delete ${source.name}`],
    });
  }
  if (old.kind === "byHand" || copy.kind === "byHand") {
    if (options.continue) return;
    throw new CliFailure(`Whether ${target.name} has the data of ${source.name} cannot be seen without kubectl.`, {
      hints: [
        "If --from-kubectl and --to-kubectl copied it, give them here, too.",
        `If you copied it by hand: ${commandFor(sides, "--continue --finish")}`,
      ],
    });
  }
  const ids = { sourceId: source.id, targetId: target.id, targetRevisionId: target.latest_revision_id ?? "" };
  if ((await findCopy({ source: old, target: copy, ...ids }, from.signal))?.revisionId === null) return;
  throw new CliFailure(`${source.name} takes writes, so ${target.name} may lack some of them.`, {
    hints: [`Move again: ${commandFor(sides)}`, `Delete it anyway: pierhead delete ${source.name}`],
  });
}

/** Lets the old deployment take writes again, and deletes the new one. */
export async function takeBack(sides: Sides): Promise<void> {
  const { from, to, source, target, options } = sides;
  const database = await findDatabase(from, source, { end: "from", kubectl: options.fromKubectl });
  if (database.kind === "reachable") await refuseOtherTarget(sides, database);
  const what = target === undefined ? "" : ` and deletes ${target.name} with what was written there`;
  from.terminal.say(`This lets ${source.name} take writes again${what}.`);
  if (options.dryRun) return answer(from, "planned", source, target ?? null);
  if (!options.yes) await confirm(from, "Go back?");
  if (database.kind === "reachable") await letWriteAgain(database, from.signal);
  if (target !== undefined) await remove(to, target, options);
  from.terminal.say(
    database.kind === "byHand"
      ? `If you made its PostgreSQL read-only by hand, let it take writes again:\n  ${releaseByHand(sides)}`
      : `${source.name} takes writes.`,
  );
  answer(from, "taken_back", source, null);
}

/** @throws CliFailure if the source moves to another deployment there, which would stay and take writes, too */
async function refuseOtherTarget({ from, to, source, target, options }: Sides, database: Reachable): Promise<void> {
  const holder = await findHolder(database, from.signal);
  if (holder === null || holder === target?.id) return;
  const client = await to.client();
  const [other] = (await client.listDeployments({ deployment_ids: holder }, { signal: to.signal })).resources;
  if (other !== undefined) {
    throw new CliFailure(`${source.name} moves to ${other.name}.`, {
      hints: [`Go back from there: add --as ${other.name}`],
    });
  }
  const where = options.toContext === undefined ? "" : ` at the context ${options.toContext}`;
  from.terminal.say(
    `${source.name} moves to the deployment ${holder}, which does not exist${where}. If another control plane has it, it stays there: to delete it, too, add --to-context.`,
  );
}

async function remove(session: Session, { id, name }: Deployment, { timeout }: MoveOptions): Promise<void> {
  const { terminal, signal } = session;
  const client = await session.client();
  const steps = createSteps(terminal, ["Delete"]);
  steps.begin("Delete");
  steps.note(name);
  try {
    await client.deleteDeployment({ deployment_id: id }, { signal });
    await client.waitForDeletion({ deployment_id: id }, { timeoutMs: parseDuration(timeout), signal });
    steps.finish();
  } finally {
    steps.close();
  }
}

function answer(
  session: Session,
  outcome: "planned" | "finished" | "taken_back",
  source: Deployment | null,
  target: Deployment | null,
): void {
  const ends = { from: source && shownEnd(source), to: target && shownEnd(target) };
  session.answer({ outcome, plan: [], ...ends, tables: null }, () => (target ?? source)?.url ?? undefined);
}
