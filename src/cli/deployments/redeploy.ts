import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { shortId } from "../terminal/text.ts";
import { describeRevision } from "./describe-revision.ts";
import { answerDryRun, whileRollingOut } from "./dry-run.ts";
import { findDeployment, findRevision, newestRevision } from "./find-deployment.ts";
import { type FollowOptions, followRevision } from "./follow-revision.ts";

/** Redeploys the artifact of a revision, by default of the newest one. */
export async function redeploy(
  session: Session,
  [name = "", id]: (string | undefined)[],
  options: FollowOptions,
): Promise<void> {
  const deployment = await findDeployment(session, name);
  const revision =
    id === undefined ? await newestRevision(session, deployment) : await findRevision(session, deployment, id);
  if (options.dryRun) {
    const text = `Runs revision ${shortId(revision.id)} (${describeRevision(revision)}) with the current variables and settings.`;
    answerDryRun(session, [], [text + whileRollingOut(deployment)]);
    return;
  }
  session.terminal.say(`Redeploying ${deployment.name} ${shortId(revision.id)} (${describeRevision(revision)})`);
  await run(session, deployment, revision, options);
}

async function run(
  session: Session,
  { id, name }: Deployment,
  revision: Revision,
  options: FollowOptions,
): Promise<void> {
  const client = await session.client();
  const ids = { deployment_id: id, revision_id: revision.id };
  const deployment = await client.redeployRevision(ids, { signal: session.signal });
  if (deployment.latest_revision_id === null) throw new CliFailure(`${name} has no revision.`);
  await followRevision(session, deployment, deployment.latest_revision_id, options);
}
