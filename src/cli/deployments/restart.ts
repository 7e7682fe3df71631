import { isSettled } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { shortId } from "../terminal/text.ts";
import { describeRevision } from "./describe-revision.ts";
import { answerDryRun, whileRollingOut } from "./dry-run.ts";
import { findDeployment, newestRevision } from "./find-deployment.ts";
import { type FollowOptions, followRevision } from "./follow-revision.ts";

/** Replaces the replicas by new ones of the same code and variables. */
export async function restart(session: Session, [name = ""]: string[], options: FollowOptions): Promise<void> {
  if (options.dryRun) return dryRunRestart(session, await findDeployment(session, name));
  const client = await session.client();
  await run(session, name, options, "Restarting", (call) => client.restartDeployment(call, { signal: session.signal }));
}

/** Tries the newest revision again, which failed. */
export async function retry(session: Session, [name = ""]: string[], options: FollowOptions): Promise<void> {
  if (options.dryRun) return dryRunRetry(session, await findDeployment(session, name));
  const client = await session.client();
  await run(session, name, options, "Retrying", (call) => client.retryDeployment(call, { signal: session.signal }));
}

/** Deploys the newest commit of the branch that a deployment tracks. */
export async function deployLatest(session: Session, name: string, options: FollowOptions): Promise<void> {
  if (options.dryRun) return dryRunLatest(session, await findDeployment(session, name));
  const client = await session.client();
  await run(session, name, options, "Deploying the newest commit of", (call) =>
    client.deployLatest(call, { signal: session.signal }),
  );
}

async function dryRunRestart(session: Session, deployment: Deployment): Promise<void> {
  const { name, active_revision_id: active } = deployment;
  if (active === null)
    throw new CliFailure(`No revision of ${name} serves.`, {
      hints: [`Try the newest one again: pierhead retry ${name}`],
    });
  const newest = await newestRevision(session, deployment);
  if (!isSettled(newest.status))
    throw new CliFailure(`Revision ${shortId(newest.id)} is ${newest.status}.`, {
      hints: [`Wait for it: pierhead status ${name} --watch`, `Or cancel it: pierhead cancel ${name}`],
    });
  const text = `Replaces the replicas of revision ${shortId(active)} by new ones with the same code and variables.`;
  answerDryRun(session, [], [text + whileRollingOut(deployment)]);
}

async function dryRunRetry(session: Session, deployment: Deployment): Promise<void> {
  const newest = await newestRevision(session, deployment);
  const shown = `${shortId(newest.id)} (${describeRevision(newest)})`;
  if (!isSettled(newest.status) || newest.status === "DEPLOYED")
    throw new CliFailure(`The newest revision of ${deployment.name}, ${shown}, did not fail.`, {
      hints: [`Run it again anyway: pierhead redeploy ${deployment.name}`],
    });
  const text = `Tries revision ${shown} again with the current variables and settings.`;
  answerDryRun(session, [], [text + whileRollingOut(deployment)]);
}

function dryRunLatest(session: Session, deployment: Deployment): void {
  const { name, source_config: config, source_revision_config: code } = deployment;
  if (config.repo_url === null) throw new CliFailure(`${name} is not deployed from a git repository.`);
  const branch = config.repo_branch ?? code.repo_ref;
  answerDryRun(session, [], [`Deploys the newest commit of ${branch} as ${name}.${whileRollingOut(deployment)}`]);
}

async function run(
  session: Session,
  name: string,
  options: FollowOptions,
  doing: string,
  send: (call: { deployment_id: string }) => Promise<Deployment>,
): Promise<void> {
  const found = await findDeployment(session, name);
  session.terminal.say(`${doing} ${found.name}`);
  const changed = await send({ deployment_id: found.id });
  await followRevision(session, changed, changed.latest_revision_id ?? "", options);
}
