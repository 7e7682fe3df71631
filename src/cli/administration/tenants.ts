import type { Organization, Plan, Quotas, Workspace } from "../../contract/administration/organization.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { choose, everyPage, tableOf } from "../terminal/choose.ts";
import { confirmByName } from "../terminal/prompt.ts";
import { age, parseWhole, shortId } from "../terminal/text.ts";

export interface PlaceOptions {
  organization?: string;
}

export async function organizationsList(session: Session): Promise<void> {
  const organizations = await allOrganizations(session);
  session.answer({ organizations }, () => {
    const rows = organizations.map(({ id, name, plan, created_at }) => [name, shortId(id), plan, age(created_at)]);
    return tableOf(session, ["NAME", "ID", "PLAN", "AGE"], rows);
  });
}

export async function organizationsCreate(
  session: Session,
  [name = ""]: string[],
  options: { plan?: Plan },
): Promise<void> {
  const client = await session.client();
  const body = { name, ...(options.plan !== undefined && { plan: options.plan }) };
  const organization = await client.createOrganization({ body }, { signal: session.signal });
  session.answer(organization, () => organization.id);
  session.terminal.say(
    `Created ${name}. Create its first workspace: pierhead admin workspaces create NAME --organization "${name}"`,
  );
}

export async function organizationsUpdate(
  session: Session,
  [name = ""]: string[],
  options: { name?: string; plan?: Plan },
): Promise<void> {
  const client = await session.client();
  const { id } = await findOrganization(session, name);
  const body = {
    ...(options.name !== undefined && { name: options.name }),
    ...(options.plan !== undefined && { plan: options.plan }),
  };
  if (Object.keys(body).length === 0) throw usageFailure("Nothing to change. Give --name or --plan.");
  const organization = await client.patchOrganization({ organization_id: id, body }, { signal: session.signal });
  session.answer(organization, () => undefined);
  session.terminal.say(`${organization.name} has the plan ${organization.plan}.`);
}

export async function organizationsDelete(
  session: Session,
  [name = ""]: string[],
  options: { yes?: boolean },
): Promise<void> {
  const client = await session.client();
  const organization = await findOrganization(session, name);
  session.terminal.say(`Deleting ${organization.name} (${shortId(organization.id)}): its keys and members.`);
  if (!options.yes) await confirmByName(session, "Type its name to delete it:", organization.name);
  await client.deleteOrganization({ organization_id: organization.id }, { signal: session.signal });
  session.answer({ organization_id: organization.id, deleted: true }, () => undefined);
}

export async function workspacesList(session: Session, _: string[], options: PlaceOptions): Promise<void> {
  const filter = await organizationFilter(session, options);
  const workspaces = await allWorkspaces(session, filter);
  const organizations = new Map((await allOrganizations(session)).map(({ id, name }) => [id, name]));
  session.answer({ workspaces }, () => {
    const rows = workspaces.map((one) => [
      one.name,
      one.id,
      organizations.get(one.organization_id) ?? shortId(one.organization_id),
      one.deployments_enabled ? "on" : "off",
      age(one.created_at),
    ]);
    return tableOf(session, ["NAME", "ID", "ORGANIZATION", "DEPLOYMENTS", "AGE"], rows);
  });
}

export async function workspacesCreate(session: Session, [name = ""]: string[], options: PlaceOptions): Promise<void> {
  const client = await session.client();
  const body = { name, ...(await organizationFilter(session, options)) };
  const workspace = await client.createWorkspace({ body }, { signal: session.signal });
  session.answer(workspace, () => workspace.id);
  session.terminal.say(
    `Created ${name}. Create a key for it: pierhead admin keys create NAME --role deployer --for "${name}"`,
  );
}

export async function workspacesUpdate(
  session: Session,
  [name = ""]: string[],
  options: { name?: string; deployments?: string },
): Promise<void> {
  const client = await session.client();
  const { id } = await findWorkspace(session, name);
  if (options.deployments !== undefined && !["on", "off"].includes(options.deployments)) {
    throw usageFailure('--deployments must be "on" or "off".');
  }
  const body = {
    ...(options.name !== undefined && { name: options.name }),
    ...(options.deployments !== undefined && { deployments_enabled: options.deployments === "on" }),
  };
  if (Object.keys(body).length === 0) throw usageFailure("Nothing to change. Give --name or --deployments.");
  const workspace = await client.patchWorkspace({ workspace_id: id, body }, { signal: session.signal });
  session.answer(workspace, () => undefined);
  session.terminal.say(`${workspace.name}: deployments are ${workspace.deployments_enabled ? "on" : "off"}.`);
}

export async function workspacesDelete(
  session: Session,
  [name = ""]: string[],
  options: { yes?: boolean },
): Promise<void> {
  const client = await session.client();
  const workspace = await findWorkspace(session, name);
  session.terminal.say(`Deleting ${workspace.name} (${shortId(workspace.id)}): its keys, members, tags and quotas.`);
  if (!options.yes) await confirmByName(session, "Type its name to delete it:", workspace.name);
  await client.deleteWorkspace({ workspace_id: workspace.id }, { signal: session.signal });
  session.answer({ workspace_id: workspace.id, deleted: true }, () => undefined);
}

export async function quotasShow(session: Session, [name]: string[]): Promise<void> {
  const client = await session.client();
  const { id } = await findWorkspace(session, name);
  const quotas = await client.getQuotas({ workspace_id: id }, { signal: session.signal });
  session.answer(quotas, () => showQuotas(session, quotas));
}

export async function quotasSet(
  session: Session,
  [name]: string[],
  options: { deployments?: string; replicas?: string; buildMinutes?: string },
): Promise<void> {
  const client = await session.client();
  const { id } = await findWorkspace(session, name);
  const { deployments, replicas, buildMinutes } = options;
  const body = {
    ...(deployments !== undefined && { deployments: limitOf(deployments) }),
    ...(replicas !== undefined && { replicas: limitOf(replicas) }),
    ...(buildMinutes !== undefined && { build_minutes: limitOf(buildMinutes) }),
  };
  if (Object.keys(body).length === 0) {
    throw usageFailure("Nothing to change. Give --deployments, --replicas or --build-minutes.");
  }
  const quotas = await client.patchQuotas({ workspace_id: id, body }, { signal: session.signal });
  session.answer(quotas, () => showQuotas(session, quotas));
}

const limitOf = (text: string) => (text === "none" ? null : parseWhole(text));

function showQuotas(session: Session, quotas: Quotas): string | undefined {
  const row = (what: string, { limit, used }: Quotas["deployments"]) => [what, String(used), String(limit ?? "none")];
  return tableOf(
    session,
    ["QUOTA", "USED", "LIMIT"],
    [
      row("deployments", quotas.deployments),
      row("replicas", quotas.replicas),
      row(`build minutes in ${quotas.month}`, quotas.build_minutes),
    ],
  );
}

export async function allOrganizations(session: Session): Promise<Organization[]> {
  const client = await session.client();
  return everyPage((page) => client.listOrganizations(page, { signal: session.signal }));
}

async function allWorkspaces(session: Session, filter: { organization_id?: string } = {}): Promise<Workspace[]> {
  const client = await session.client();
  return everyPage((page) => client.listWorkspaces({ ...filter, ...page }, { signal: session.signal }));
}

export async function findOrganization(session: Session, wanted: string): Promise<Organization> {
  const what = { what: "organization", nameOf: ({ name }: Organization) => name };
  return choose(await allOrganizations(session), wanted, what);
}

/** Returns the named workspace, by default the one that other commands use, or the only one. */
export async function findWorkspace(session: Session, wanted?: string): Promise<Workspace> {
  const all = await allWorkspaces(session);
  const what = { what: "workspace", nameOf: ({ name }: Workspace) => name };
  const [only, another] = all;
  const meant = wanted ?? (await session.connection()).workspaceId;
  if (meant !== undefined) return choose(all, meant, what);
  if (only !== undefined && another === undefined) return only;
  throw usageFailure("Give a workspace.", "List workspaces: pierhead admin workspaces list");
}

/** Returns `--organization` as part of a query or body. */
export async function organizationFilter(
  session: Session,
  { organization }: PlaceOptions,
): Promise<{ organization_id?: string }> {
  if (organization === undefined) return {};
  return { organization_id: (await findOrganization(session, organization)).id };
}
