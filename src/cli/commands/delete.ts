import { WaitTimeout } from "../../client/client.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import { findDeployment } from "../find-deployment.ts";
import type { FollowOptions } from "../follow-revision.ts";
import { confirmByName } from "../prompt.ts";
import type { Session } from "../session.ts";
import { createSteps } from "../steps.ts";
import { duration, parseDuration, shortId } from "../text.ts";

/** Deletes a deployment with all that was made for it, and waits until it is gone. */
export async function deleteDeployment(
  session: Session,
  [name = ""]: string[],
  options: FollowOptions & { yes?: boolean; force?: boolean },
): Promise<void> {
  const { terminal, signal } = session;
  const client = await session.client();
  const deployment = await findDeployment(session, name);
  const ids = { deployment_id: deployment.id };
  terminal.say(
    `Deleting ${deployment.name} (${shortId(deployment.id)}): replicas, revisions, logs, variables and its database.`,
  );
  if (!options.yes) await confirmByName(session, "Type its name to delete it:", deployment.name);
  const steps = createSteps(terminal, ["Delete"]);
  steps.begin("Delete");
  try {
    await client.deleteDeployment(options.force ? { ...ids, force: true } : ids, { signal });
    if (!options.wait) {
      session.answer({ ...ids, deleted: false }, () => undefined);
      throw new CliFailure(`${deployment.name} is being deleted.`, { exitCode: exitCodes.pending });
    }
    const timeout = options.timeout === undefined ? {} : { timeoutMs: parseDuration(options.timeout) };
    await client.waitForDeletion(ids, { ...timeout, signal });
    steps.finish();
  } catch (error) {
    steps.close();
    if (!signal.aborted && !(error instanceof WaitTimeout)) throw error;
    throw new CliFailure(`${deployment.name} is being deleted; that goes on in the server.`, {
      exitCode: signal.aborted ? exitCodes.cancelled : exitCodes.pending,
      isNotice: true,
      hints: [`What it waits for: pierhead why ${deployment.id}`],
    });
  }
  session.answer({ ...ids, deleted: true }, () => undefined);
  terminal.say(`${terminal.paintErr("green", "Deleted")} ${deployment.name} in ${duration(steps.elapsedMs())}`);
}
