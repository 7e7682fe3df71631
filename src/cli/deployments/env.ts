import type { Deployment, Secret } from "../../contract/deployments/deployment.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { mask } from "../terminal/mask.ts";
import { askSecret } from "../terminal/prompt.ts";
import { readStdin } from "../terminal/stdin.ts";
import { harmless } from "../terminal/terminal.ts";
import { columns } from "../terminal/text.ts";
import { findDeployment } from "./find-deployment.ts";
import { type FollowOptions, followRevision } from "./follow-revision.ts";
import { addVariables, changeVariables, readVariables } from "./variables.ts";

/** The variables of a deployment, without their values unless they are asked for. */
export async function envList(session: Session, [name = ""]: string[], options: { reveal?: boolean }): Promise<void> {
  const deployment = await findDeployment(session, name);
  const variables = deployment.secrets
    .map(({ name, value }) => ({ name, value: options.reveal ? value : null }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  session.answer({ deployment_id: deployment.id, variables }, () => {
    const rows = variables.map(({ name, value }) => [name, harmless(value ?? mask)]);
    return rows.length === 0 ? undefined : columns(rows);
  });
  if (variables.length === 0) session.terminal.say(`${deployment.name} has no variables.`);
}

/** Sets one variable; its value comes from stdin or a prompt, so that it is in no history and no process list. */
export async function envSet(
  session: Session,
  [name = "", variable = ""]: string[],
  options: FollowOptions,
): Promise<void> {
  if (variable.includes("=")) {
    const bare = variable.split("=", 1)[0];
    throw usageFailure(
      "A value on the command line stays in the shell's history and in the process list.",
      `Type it at a prompt:  pierhead env set ${name} ${bare}`,
      `Or send it on stdin:  pierhead env set ${name} ${bare} < file`,
    );
  }
  const deployment = await findDeployment(session, name);
  const value = session.terminal.isInteractive
    ? await askSecret(session, `Value of ${variable}`)
    : (await readStdin(session.context)).replace(/\r?\n$/, "");
  await add(session, deployment, [{ name: variable, value }], options);
}

export async function envUnset(
  session: Session,
  [name = "", ...variables]: string[],
  options: FollowOptions,
): Promise<void> {
  const deployment = await findDeployment(session, name);
  const client = await session.client();
  const patched = await changeVariables(
    session,
    deployment,
    (present) => without(present, variables, deployment),
    (secrets, call) => client.patchDeployment({ deployment_id: deployment.id, body: { secrets } }, call),
  );
  await follow(session, patched, options);
}

function without(present: readonly Secret[], variables: readonly string[], { name }: Deployment): Secret[] {
  const unknown = variables.filter((variable) => !present.some((secret) => secret.name === variable));
  if (unknown.length > 0) throw new CliFailure(`${name} has no variable ${unknown.join(", ")}.`);
  const left = present.filter((secret) => !variables.includes(secret.name));
  if (left.length > 0) return left;
  // An empty list means "unchanged" in this API, for the sake of clients that always send one.
  throw new CliFailure("The API cannot remove the last variable of a deployment.", {
    hints: [`Empty it instead:  pierhead env set ${name} ${variables[0]} < /dev/null`],
  });
}

/** Adds the variables of a dotenv file to those that are there. */
export async function envImport(
  session: Session,
  [name = "", file = ""]: string[],
  options: FollowOptions,
): Promise<void> {
  const deployment = await findDeployment(session, name);
  const variables = await readVariables(session, file);
  if (variables.length === 0) throw new CliFailure(`${file} has no variables.`);
  await add(session, deployment, variables, options);
}

async function add(
  session: Session,
  deployment: Deployment,
  added: readonly Secret[],
  options: FollowOptions,
): Promise<void> {
  const client = await session.client();
  const patched = await addVariables(session, deployment, added, (part, call) =>
    client.patchDeployment({ deployment_id: deployment.id, body: part }, call),
  );
  await follow(session, patched, options);
}

/** Variables belong to a revision: a change makes a new one, and the old one serves until it is healthy. */
async function follow(session: Session, patched: Deployment, options: FollowOptions): Promise<void> {
  const revisionId = patched.latest_revision_id;
  if (revisionId !== null) return followRevision(session, patched, revisionId, options);
  session.terminal.say(`Stored; the first deploy of ${patched.name} takes them with it.`);
  session.answer({ deployment: { id: patched.id }, revision: null, elapsed_ms: 0 }, () => undefined);
}
