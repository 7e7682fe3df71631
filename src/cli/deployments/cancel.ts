import { isRefusal, isSettled } from "../../client/client.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import type { Session } from "../session.ts";
import { shortId } from "../terminal/text.ts";
import { answerDryRun } from "./dry-run.ts";
import { allRevisions, findDeployment, findRevision } from "./find-deployment.ts";

/** Cancels the revisions in progress, queued ones first, because a freed slot would otherwise start the next one. */
export async function cancel(
  session: Session,
  [name = "", id]: (string | undefined)[],
  options: { dryRun?: boolean } = {},
): Promise<void> {
  const { terminal } = session;
  const deployment = await findDeployment(session, name);
  if (options.dryRun) {
    const named =
      id === undefined ? await unsettled(session, deployment.id) : [await findRevision(session, deployment, id)];
    const effects = named
      .filter(({ status }) => !isSettled(status))
      .map((revision) => `Cancels revision ${shortId(revision.id)}, which is ${revision.status}.`);
    return answerDryRun(session, [], effects);
  }
  const interrupted: string[] = [];
  const say = (revision: Revision) => {
    interrupted.push(revision.id);
    terminal.say(`Cancelled revision ${shortId(revision.id)}, which was ${revision.status}.`);
  };
  if (id === undefined) await interruptRevisions(session, await unsettled(session, deployment.id), say);
  else {
    const revision = await findRevision(session, deployment, id);
    await interrupt(session, revision);
    say(revision);
  }
  if (interrupted.length === 0) terminal.say(`No revision of ${deployment.name} is in progress.`);
  session.answer({ deployment_id: deployment.id, interrupted }, () => undefined);
}

/** Cancels revisions, except those that have ended since they were read. @param seen is called with each that it cancelled. */
export async function interruptRevisions(
  session: Session,
  revisions: readonly Revision[],
  seen?: (revision: Revision) => void,
): Promise<void> {
  for (const revision of revisions) {
    try {
      await interrupt(session, revision);
    } catch (error) {
      if (isRefusal(error, "revisionSettled")) continue;
      throw error;
    }
    seen?.(revision);
  }
}

async function interrupt(session: Session, { id, deployment_id }: Revision): Promise<void> {
  const client = await session.client();
  await client.interruptRevision({ deployment_id, revision_id: id }, { signal: session.signal });
}

/** Returns unsettled revisions, newest first, so that queued ones come first. */
async function unsettled(session: Session, deploymentId: string): Promise<Revision[]> {
  const found: Revision[] = [];
  for await (const revision of allRevisions(await session.client(), deploymentId, session.signal)) {
    if (!isSettled(revision.status)) found.push(revision);
  }
  return found;
}
