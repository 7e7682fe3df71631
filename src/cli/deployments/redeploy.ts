import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { confirm } from "../terminal/prompt.ts";
import { age, shortId } from "../terminal/text.ts";
import { describeRevision } from "./describe-revision.ts";
import { allRevisions, findDeployment, findRevision } from "./find-deployment.ts";
import { type FollowOptions, followRevision } from "./follow-revision.ts";

/** Redeploys the artifact of a revision, by default of the newest one. */
export async function redeploy(
  session: Session,
  [name = "", id]: (string | undefined)[],
  options: FollowOptions,
): Promise<void> {
  const deployment = await findDeployment(session, name);
  const revision = id === undefined ? await newest(session, deployment) : await findRevision(session, deployment, id);
  session.terminal.say(`Redeploying ${deployment.name} ${shortId(revision.id)} (${describeRevision(revision)})`);
  await run(session, deployment, revision, options);
}

/** Rolls back to a given revision, by default to the last one deployed before the active revision. */
export async function rollback(
  session: Session,
  [name = "", id]: (string | undefined)[],
  options: FollowOptions & { yes?: boolean },
): Promise<void> {
  const { terminal } = session;
  const deployment = await findDeployment(session, name);
  const target = id === undefined ? await previous(session, deployment) : await findRevision(session, deployment, id);
  const active = deployment.active_revision_id;
  if (target.id === active) throw new CliFailure(`Revision ${shortId(target.id)} already serves.`);
  terminal.say(`Rolling back ${deployment.name}`);
  if (active !== null) {
    const client = await session.client();
    const serving = await client.getRevision(
      { deployment_id: deployment.id, revision_id: active },
      { signal: session.signal },
    );
    terminal.say(`  from  ${line(serving)}`);
  }
  terminal.say(`  to    ${line(target)}\n  Secrets and resources stay as they are now.`);
  // Another rollback undoes this one, so scripts need no confirmation.
  if (!options.yes && terminal.isInteractive) await confirm(session, "Roll back?");
  await run(session, deployment, target, options);
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

async function newest(session: Session, deployment: Deployment): Promise<Revision> {
  const client = await session.client();
  if (deployment.latest_revision_id === null) throw new CliFailure(`${deployment.name} has no revision yet.`);
  const ids = { deployment_id: deployment.id, revision_id: deployment.latest_revision_id };
  return client.getRevision(ids, { signal: session.signal });
}

async function previous(session: Session, deployment: Deployment): Promise<Revision> {
  const client = await session.client();
  let isBehindActive = deployment.active_revision_id === null;
  for await (const revision of allRevisions(client, deployment.id, session.signal)) {
    if (isBehindActive && revision.status === "DEPLOYED") return revision;
    if (revision.id === deployment.active_revision_id) isBehindActive = true;
  }
  throw new CliFailure(`${deployment.name} has no earlier deployed revision.`, {
    hints: [`List its revisions: pierhead status ${deployment.name}`],
  });
}

const line = (revision: Revision) =>
  `${shortId(revision.id)}  ${describeRevision(revision)}  (created ${age(revision.created_at)} ago)`;
