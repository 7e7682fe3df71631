import { isRefusal, isSettled } from "../../client/client.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import type { Session } from "../session.ts";
import { shortId } from "../terminal/text.ts";
import { allRevisions, findDeployment, findRevision } from "./find-deployment.ts";

/** Cancels the revisions in progress, queued ones first, because a freed slot would otherwise start the next one. */
export async function cancel(session: Session, [name = "", id]: (string | undefined)[]): Promise<void> {
  const { terminal, signal } = session;
  const client = await session.client();
  const deployment = await findDeployment(session, name);
  const revisions =
    id === undefined ? await unsettled(session, deployment.id) : [await findRevision(session, deployment, id)];
  const interrupted: string[] = [];
  for (const revision of revisions) {
    try {
      await client.interruptRevision({ deployment_id: deployment.id, revision_id: revision.id }, { signal });
    } catch (error) {
      // It has ended since the list was read. Continue with the others.
      if (id === undefined && isRefusal(error, "revisionSettled")) continue;
      throw error;
    }
    interrupted.push(revision.id);
    terminal.say(`Cancelled revision ${shortId(revision.id)}, which was ${revision.status}.`);
  }
  if (interrupted.length === 0) terminal.say(`No revision of ${deployment.name} is in progress.`);
  session.answer({ deployment_id: deployment.id, interrupted }, () => undefined);
}

/** Returns unsettled revisions, newest first, so that queued ones come first. */
async function unsettled(session: Session, deploymentId: string): Promise<Revision[]> {
  const found: Revision[] = [];
  for await (const revision of allRevisions(await session.client(), deploymentId, session.signal)) {
    if (!isSettled(revision.status)) found.push(revision);
  }
  return found;
}
