import { isDeepStrictEqual } from "node:util";
import { isSettled } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import type { ChangeVariables } from "../../contract/revisions/run-again.ts";
import { lacksOneOf } from "../../domain/failures.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { mask } from "../terminal/mask.ts";
import { askSecret } from "../terminal/prompt.ts";
import { readSecret } from "../terminal/stdin.ts";
import { cellText, harmless } from "../terminal/terminal.ts";
import { columns, shortId } from "../terminal/text.ts";
import { answerDryRun, changedVariables, whileRollingOut } from "./dry-run.ts";
import { findDeployment } from "./find-deployment.ts";
import { answerWithoutRevision, type FollowOptions, followRevision } from "./follow-revision.ts";
import { readVariables } from "./variables.ts";

/** Lists the variables of a deployment, with values only for `--reveal`. */
export async function envList(session: Session, [name = ""]: string[], options: { reveal?: boolean }): Promise<void> {
  const deployment = await findDeployment(session, name);
  const variables = deployment.secrets
    .map(({ name, value }) => ({ name, value: options.reveal ? value : null }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  session.answer({ deployment_id: deployment.id, variables }, () => {
    const rows = variables.map(({ name, value }) => [cellText(name), harmless(value ?? mask)]);
    return rows.length === 0 ? undefined : columns(rows);
  });
  if (variables.length === 0) session.terminal.say(`${deployment.name} has no variables.`);
}

/** Sets variables. The values come from stdin or a prompt, so that they appear in no shell history and no process list. */
export async function envSet(
  session: Session,
  [name = "", ...variables]: string[],
  options: FollowOptions,
): Promise<void> {
  refuseValues(variables, `pierhead env set ${name}`);
  const deployment = await findDeployment(session, name);
  const values = await readValues(session, variables);
  const set = variables.map((variable, at) => ({ name: variable, value: values[at] ?? "" }));
  await change(session, deployment, { set }, options);
}

/** @throws CliFailure when an argument has a value. */
export function refuseValues(variables: readonly string[], command: string): void {
  const given = variables.find((variable) => variable.includes("="));
  if (given === undefined) return;
  const bare = given.split("=", 1)[0];
  throw usageFailure(
    "Values are not accepted as arguments, because they would appear in the shell history and the process list.",
    `Enter it at a prompt: ${command} ${bare}`,
    `Or send it on stdin:  ${command} ${bare} < file`,
  );
}

/** Reads the values of variables from a prompt or from stdin. */
export async function readValues(session: Session, variables: readonly string[]): Promise<string[]> {
  return session.terminal.isInteractive
    ? askEach(session, variables)
    : valuesOf(await readSecret(session.context), variables);
}

async function askEach(session: Session, variables: readonly string[]): Promise<string[]> {
  const values: string[] = [];
  for (const variable of variables) values.push(await askSecret(session, `Value of ${variable}`));
  return values;
}

/** Reads the values from stdin. A single one may have several lines. */
function valuesOf(text: string, variables: readonly string[]): string[] {
  // A command before the pipe that failed, or a closed stdin, would silently empty the variable.
  if (text === "") throw usageFailure("stdin has no value.", "An empty value is an empty line: echo | pierhead ...");
  const trimmed = text.replace(/\r?\n$/, "");
  if (variables.length === 1) return [trimmed];
  const values = trimmed.split(/\r?\n/);
  if (values.length === variables.length) return values;
  throw usageFailure(
    `stdin has ${values.length} lines for ${variables.length} variables. Send one value on each line, in the order of the names.`,
    "Values with several lines: pierhead env import DEPLOYMENT FILE",
  );
}

/** Removes variables. The server merges the change, so that a change by another user in between is kept. */
export async function envUnset(
  session: Session,
  [name = "", ...variables]: string[],
  options: FollowOptions,
): Promise<void> {
  const deployment = await findDeployment(session, name);
  const unknown = variables.filter((variable) => !deployment.secrets.some((secret) => secret.name === variable));
  if (unknown.length > 0) throw new CliFailure(`${deployment.name} has no variable ${unknown.join(", ")}.`);
  await change(session, deployment, { remove: variables }, options);
}

/** Adds the variables of a dotenv file to the existing ones. */
export async function envImport(
  session: Session,
  [name = "", file = ""]: string[],
  options: FollowOptions,
): Promise<void> {
  const deployment = await findDeployment(session, name);
  const variables = await readVariables(session, file);
  if (variables.length === 0) throw new CliFailure(`${file} has no variables.`);
  await change(session, deployment, { set: variables }, options);
}

/** Changes variables and follows the revision that runs the current code with them. */
async function change(
  session: Session,
  deployment: Deployment,
  body: ChangeVariables,
  options: FollowOptions,
): Promise<void> {
  if (options.dryRun) return await dryRun(session, deployment, body);
  const client = await session.client();
  const changed = await client.changeVariables({ deployment_id: deployment.id, body }, { signal: session.signal });
  if (changed.latest_revision_id === deployment.latest_revision_id && changed.latest_revision_id !== null) {
    session.terminal.say("The variables already have these values.");
    answerWithoutRevision(session, changed);
    return;
  }
  await noteLeftOut(session, deployment, changed);
  await follow(session, changed, options);
}

/** Names a newest revision that failed and whose code the change does not run, because the user may expect that it does. */
async function noteLeftOut(session: Session, before: Deployment, { latest_revision_id: made }: Deployment) {
  const failed = await findFailed(session, before);
  if (failed === undefined || made === null) return;
  const next = await readRevision(session, before, made);
  if (isDeepStrictEqual(failed.source_revision_config, next.source_revision_config)) return;
  session.terminal.say(leftOut(before, failed));
}

const leftOut = ({ name }: Deployment, { id }: Revision) =>
  `Revision ${shortId(id)} did not deploy, so its code stays out. To run it with these variables: pierhead redeploy ${name} ${shortId(id)}`;

/** Returns the newest revision if it ended without serving while another one serves. */
async function findFailed(session: Session, deployment: Deployment): Promise<Revision | undefined> {
  const { latest_revision_id: latest, active_revision_id: active } = deployment;
  if (latest === null || active === null || latest === active) return undefined;
  const revision = await readRevision(session, deployment, latest);
  return isSettled(revision.status) ? revision : undefined;
}

async function readRevision(session: Session, { id }: Deployment, revision_id: string): Promise<Revision> {
  const client = await session.client();
  return client.getRevision({ deployment_id: id, revision_id }, { signal: session.signal });
}

async function dryRun(session: Session, deployment: Deployment, { set, remove }: ChangeVariables): Promise<void> {
  const variables = { set: changedVariables(deployment, set ?? []), removed: remove ?? [] };
  if (variables.set.length + variables.removed.length === 0) {
    answerDryRun(session, [], []);
    return;
  }
  const change = { name: deployment.name, action: "change" as const, fields: [], variables };
  answerDryRun(session, [change], await effectsOn(session, deployment, set ?? []));
}

/**
 * Says which code would run in the new revision: after a failed revision, that of the revision that serves, unless the failed one
 * lacks a variable that is set now.
 */
async function effectsOn(
  session: Session,
  deployment: Deployment,
  set: readonly { name: string }[],
): Promise<string[]> {
  const { latest_revision_id: latest, active_revision_id: active } = deployment;
  if (latest === null) return [];
  const failed = await findFailed(session, deployment);
  const serving = failed === undefined || active === null ? null : await readRevision(session, deployment, active);
  if (
    failed === undefined ||
    serving === null ||
    isDeepStrictEqual(failed.source_revision_config, serving.source_revision_config)
  )
    return [`The current code runs in a new revision.${whileRollingOut(deployment)}`];
  const names = set.map(({ name }) => name);
  if (lacksOneOf(failed.failure, names))
    return [`The code of revision ${shortId(failed.id)}, which lacked a variable, runs in a new revision.`];
  return [
    `The code of revision ${shortId(serving.id)} runs in a new revision.${whileRollingOut(deployment)}`,
    leftOut(deployment, failed),
  ];
}

/** Follows the revision that a change creates. The old revision serves until the new one is healthy. */
async function follow(session: Session, patched: Deployment, options: FollowOptions): Promise<void> {
  const revisionId = patched.latest_revision_id;
  if (revisionId !== null) return followRevision(session, patched, revisionId, options);
  session.terminal.say(`Stored for the first deploy of ${patched.name}.`);
  answerWithoutRevision(session, patched);
}
