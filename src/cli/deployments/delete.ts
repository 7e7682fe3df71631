import { type Client, WaitTimeout } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Session } from "../session.ts";
import { confirm, confirmByName } from "../terminal/prompt.ts";
import { createSteps } from "../terminal/steps.ts";
import { duration, parseDuration, shortId } from "../terminal/text.ts";
import { answerDryRun } from "./dry-run.ts";
import { findDeployment } from "./find-deployment.ts";
import type { FollowOptions } from "./follow-revision.ts";

type Options = FollowOptions & { yes?: boolean; force?: boolean };

/** Deletes deployments with everything created for them, and waits until the deletion is finished. */
export async function deleteDeployments(session: Session, names: string[], options: Options): Promise<void> {
  const { terminal, signal } = session;
  const client = await session.client();
  const found = await Promise.all(names.map((name) => findDeployment(session, name)));
  const deployments = [...new Map(found.map((one) => [one.id, one])).values()];
  const shown = deployments.map(({ name }) => name).join(", ");
  if (options.dryRun) return dryRun(session, deployments);
  for (const { name, id } of deployments) {
    terminal.say(`Deleting ${name} (${shortId(id)}): replicas, revisions, logs, variables and its database.`);
  }
  if (!options.yes) await askFirst(session, deployments);
  const steps = createSteps(terminal, ["Delete"]);
  steps.begin("Delete");
  const answer = (deleted: boolean) => session.answer(answerOf(deployments, deleted), () => undefined);
  const going = deployments.length === 1 ? "is being deleted" : "are being deleted";
  let isAccepted = false;
  try {
    await requestDelete(client, deployments, options, signal);
    isAccepted = true;
    if (!options.wait) {
      answer(false);
      throw new CliFailure(`${shown} ${going}.`, { exitCode: exitCodes.pending });
    }
    const timeout = options.timeout === undefined ? {} : { timeoutMs: parseDuration(options.timeout) };
    await Promise.all(
      deployments.map(({ id }) => client.waitForDeletion({ deployment_id: id }, { ...timeout, signal })),
    );
    steps.finish();
  } catch (error) {
    steps.close();
    if (!isAccepted && signal.aborted) throw unconfirmedDelete(shown);
    if (!signal.aborted && !(error instanceof WaitTimeout)) throw error;
    throw new CliFailure(`${shown} ${going}. The deletion goes on in the server.`, {
      exitCode: signal.aborted ? exitCodes.cancelled : exitCodes.pending,
      isNotice: true,
      hints: progressHints(deployments),
    });
  }
  answer(true);
  terminal.say(`${terminal.paintErr("green", "Deleted")} ${shown} in ${duration(steps.elapsedMs())}`);
}

function dryRun(session: Session, deployments: Deployment[]): void {
  const none = { fields: [], variables: { set: [], removed: [] } };
  const changes = deployments.map(({ name }) => ({ name, action: "delete" as const, ...none }));
  answerDryRun(session, changes, [
    "Deletes replicas, revisions, logs, variables and the databases of these deployments.",
  ]);
}

/** More hints than this would hide the message. */
const hintsMax = 5;

function progressHints(deployments: Deployment[]): string[] {
  const [only, another] = deployments;
  if (only !== undefined && another === undefined) return [`Show its progress: pierhead why ${only.id}`];
  if (deployments.length > hintsMax) return ["Show their progress: pierhead list --health deleting"];
  return deployments.map(({ name, id }) => `Show the progress of ${name}: pierhead why ${id}`);
}

/** Returns the failure for Ctrl-C during the request, when the client cannot know whether the server received it. */
function unconfirmedDelete(shown: string): CliFailure {
  return new CliFailure(`Cancelled before the server confirmed the deletion of ${shown}.`, {
    exitCode: exitCodes.cancelled,
    isNotice: true,
    hints: ["Check the state: pierhead list"],
  });
}

async function askFirst(session: Session, deployments: Deployment[]): Promise<void> {
  const [only, another] = deployments;
  if (only !== undefined && another === undefined) {
    await confirmByName(session, "Type its name to delete it:", only.name);
  } else await confirm(session, `Delete these ${deployments.length} deployments?`);
}

/** Maximum number of ids in one call. */
const idsMax = 100;

async function requestDelete(
  client: Client,
  deployments: Deployment[],
  { force }: Options,
  signal: AbortSignal,
): Promise<void> {
  const [only, another] = deployments;
  const forced = force ? { force: true } : {};
  if (only !== undefined && another === undefined) {
    await client.deleteDeployment({ deployment_id: only.id, ...forced }, { signal });
    return;
  }
  for (let first = 0; first < deployments.length; first += idsMax) {
    const deployment_ids = deployments.slice(first, first + idsMax).map(({ id }) => id);
    const { failed } = await client.deleteDeployments({ deployment_ids, ...forced }, { signal });
    const because = failed.map(({ detail }) => detail).join("\n");
    if (failed.length > 0) throw new CliFailure("Some deployments could not be deleted.", { because });
  }
}

function answerOf(deployments: Deployment[], deleted: boolean) {
  const answers = deployments.map(({ id }) => ({ deployment_id: id, deleted }));
  return answers.length === 1 ? answers[0] : { deployments: answers };
}
