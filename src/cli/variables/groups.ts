import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { VariableGroup } from "../../contract/variables/variable-group.ts";
import { readValues, refuseValues } from "../deployments/env.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { readVariables } from "../deployments/variables.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { choose, everyPage, tableOf } from "../terminal/choose.ts";
import { mask } from "../terminal/mask.ts";
import { count } from "../terminal/text.ts";

interface SetOptions {
  plain?: boolean;
}

export async function groupsList(session: Session): Promise<void> {
  const groups = await allGroups(session);
  session.answer({ groups }, () => {
    const rows = groups.map(({ name, variables, deployments }) => [
      name,
      variables.map((one) => one.name).join(", ") || "-",
      deployments.map(userText).join(", ") || "-",
    ]);
    return tableOf(session, ["GROUP", "VARIABLES", "DEPLOYMENTS"], rows);
  });
  if (groups.length === 0) session.terminal.say("No variable groups. Create one: pierhead groups set GROUP VARIABLE");
}

export async function groupsShow(session: Session, [name = ""]: string[]): Promise<void> {
  const group = await findGroup(session, name);
  session.answer(group, () => variablesTable(session, group));
  const { deployments } = group;
  session.terminal.say(
    deployments.length === 0
      ? `No deployment uses ${group.name}. Use it: pierhead groups use DEPLOYMENT ${group.name}`
      : `Used by ${deployments.map(userText).join(", ")}.`,
  );
}

/** Sets variables, and creates the group if there is none of that name. */
export async function groupsSet(session: Session, [name = "", ...names]: string[], options: SetOptions): Promise<void> {
  refuseValues(names, `pierhead groups set ${name}`);
  const values = await readValues(session, names);
  await setVariables(
    session,
    name,
    names.map((one, at) => ({ name: one, value: values[at] ?? "" })),
    options,
  );
}

export async function groupsImport(
  session: Session,
  [name = "", file = ""]: string[],
  options: SetOptions,
): Promise<void> {
  const variables = await readVariables(session, file);
  if (variables.length === 0) throw new CliFailure(`${file} has no variables.`);
  await setVariables(session, name, variables, options);
}

export async function groupsUnset(session: Session, [name = "", ...remove]: string[]): Promise<void> {
  const client = await session.client();
  const group = await findGroup(session, name);
  const unknown = remove.filter((variable) => !group.variables.some((one) => one.name === variable));
  if (unknown.length > 0) throw new CliFailure(`${group.name} has no variable ${unknown.join(", ")}.`);
  const at = { variable_group_id: group.id };
  answerChanged(session, await client.patchVariableGroup({ ...at, body: { remove } }, { signal: session.signal }));
}

/** Sets the groups of a deployment. Its own variables win over theirs. */
export async function groupsUse(session: Session, [name = "", ...names]: string[]): Promise<void> {
  const deployment = await findDeployment(session, name);
  const groups = await allGroups(session);
  const ids = names.map((one) => chooseGroup(groups, one).id);
  const after = await putGroups(session, deployment.id, ids);
  session.answer(after, () => after.id);
  const isDeploying = after.latest_revision_id !== deployment.latest_revision_id;
  session.terminal.say(
    isDeploying
      ? `Deploying ${after.name} with these variables. Follow it: pierhead status ${after.name} --watch`
      : `Nothing to deploy: ${after.name} has these variables already, or has no revision yet.`,
  );
}

export async function groupsDeploy(session: Session, [name = ""]: string[]): Promise<void> {
  const client = await session.client();
  const group = await findGroup(session, name);
  const stale = group.deployments.filter(({ is_current }) => !is_current);
  const deployments: Deployment[] = [];
  for (const { id, name: shown } of stale) {
    const { groups } = await client.getDeploymentVariableGroups({ deployment_id: id }, { signal: session.signal });
    deployments.push(
      await putGroups(
        session,
        id,
        groups.map((one) => one.id),
      ),
    );
    session.terminal.say(`Deploying ${shown}. Follow it: pierhead status ${shown} --watch`);
  }
  session.answer({ deployments }, () => undefined);
  if (stale.length === 0) session.terminal.say(`Every deployment that uses ${group.name} has its current variables.`);
}

export async function groupsDelete(session: Session, [name = ""]: string[]): Promise<void> {
  const client = await session.client();
  const at = { variable_group_id: (await findGroup(session, name)).id };
  await client.deleteVariableGroup(at, { signal: session.signal });
  session.answer({ ...at, deleted: true }, () => undefined);
}

async function setVariables(
  session: Session,
  name: string,
  variables: { name: string; value: string }[],
  { plain = false }: SetOptions,
): Promise<void> {
  const client = await session.client();
  const { signal } = session;
  const groups = await allGroups(session);
  const known = groups.find((one) => one.name === name || one.id === name);
  const set = variables.map((one) => ({ ...one, ...(plain && { is_secret: false }) }));
  const group =
    known === undefined
      ? await client.createVariableGroup({ body: { name, variables: set } }, { signal })
      : await client.patchVariableGroup({ variable_group_id: known.id, body: { set } }, { signal });
  answerChanged(session, group);
}

/** Answers with a changed group, and names the deployments that do not have its variables yet. */
function answerChanged(session: Session, group: VariableGroup): void {
  session.answer(group, () => variablesTable(session, group));
  const stale = group.deployments.filter(({ is_current }) => !is_current).length;
  if (stale > 0) {
    const verb = stale === 1 ? "gets" : "get";
    session.terminal.say(
      `${count(stale, "deployment")} ${verb} these variables with the next revision. Deploy now: pierhead groups deploy ${group.name}`,
    );
  }
}

const variablesTable = (session: Session, { variables }: VariableGroup) =>
  tableOf(
    session,
    ["VARIABLE", "VALUE"],
    variables.map(({ name, value }) => [name, value ?? mask]),
  );

const userText = ({ name, is_current }: VariableGroup["deployments"][number]) =>
  is_current ? name : `${name} (not deployed)`;

async function putGroups(session: Session, deployment_id: string, ids: string[]): Promise<Deployment> {
  const client = await session.client();
  const body = { variable_group_ids: ids };
  return client.putDeploymentVariableGroups({ deployment_id, body }, { signal: session.signal });
}

const findGroup = async (session: Session, name: string) => chooseGroup(await allGroups(session), name);

const chooseGroup = (groups: readonly VariableGroup[], name: string) =>
  choose(groups, name, { what: "variable group", nameOf: (one) => one.name });

async function allGroups(session: Session): Promise<VariableGroup[]> {
  const client = await session.client();
  return everyPage((page) => client.listVariableGroups(page, { signal: session.signal }));
}
