import type { Member, MemberRole } from "../../contract/administration/member.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { choose, everyPage, tableOf } from "../terminal/choose.ts";
import { confirm } from "../terminal/prompt.ts";
import { age } from "../terminal/text.ts";
import { findWorkspace, organizationFilter } from "./tenants.ts";

interface Place {
  for?: string;
  organization?: string;
}

export async function membersList(session: Session, _: string[], options: Place): Promise<void> {
  const client = await session.client();
  const members = await allMembers(session, await placeOf(session, options));
  const workspaces = await everyPage((page) => client.listWorkspaces(page, { signal: session.signal }));
  const names = new Map(workspaces.map(({ id, name }) => [id, name]));
  session.answer({ members }, () => {
    const rows = members.map((one) => [
      one.email,
      one.name ?? "-",
      one.role,
      one.workspace_id === null ? "all workspaces" : (names.get(one.workspace_id) ?? one.workspace_id),
      age(one.created_at),
    ]);
    return tableOf(session, ["EMAIL", "NAME", "ROLE", "WHERE", "AGE"], rows);
  });
}

export async function membersAdd(
  session: Session,
  [email = ""]: string[],
  options: Place & { role: string; name?: string },
): Promise<void> {
  const client = await session.client();
  const { role, name } = options;
  const place = await placeOf(session, options);
  const body = { email, role: role as MemberRole, ...place, ...(name !== undefined && { name }) };
  const member = await client.createMember({ body }, { signal: session.signal });
  session.answer(member, () => member.id);
  session.terminal.say(`Added ${member.email} as ${member.role}.`);
}

export async function membersUpdate(
  session: Session,
  [email = ""]: string[],
  options: Place & { role?: string; name?: string },
): Promise<void> {
  const client = await session.client();
  const { role, name } = options;
  if (role === undefined && name === undefined) throw usageFailure("Nothing to change. Give --role or --name.");
  const { id } = await findMember(session, email, options);
  const body = { ...(role !== undefined && { role: role as MemberRole }), ...(name !== undefined && { name }) };
  const member = await client.patchMember({ member_id: id, body }, { signal: session.signal });
  session.answer(member, () => undefined);
  session.terminal.say(`${member.email} is ${member.role}.`);
}

export async function membersRemove(
  session: Session,
  [email = ""]: string[],
  options: Place & { yes?: boolean },
): Promise<void> {
  const client = await session.client();
  const member = await findMember(session, email, options);
  if (!options.yes) await confirm(session, `Remove ${member.email} (${member.role})?`);
  await client.deleteMember({ member_id: member.id }, { signal: session.signal });
  session.answer({ member_id: member.id, deleted: true }, () => undefined);
}

async function findMember(session: Session, email: string, options: Place): Promise<Member> {
  const all = await allMembers(session, await placeOf(session, options));
  return choose(all, email.toLowerCase(), { what: "member", nameOf: (member) => member.email });
}

async function allMembers(
  session: Session,
  filter: { organization_id?: string; workspace_id?: string },
): Promise<Member[]> {
  const client = await session.client();
  return everyPage((page) => client.listMembers({ ...filter, ...page }, { signal: session.signal }));
}

async function placeOf(session: Session, options: Place) {
  if (options.for !== undefined) return { workspace_id: (await findWorkspace(session, options.for)).id };
  return organizationFilter(session, options);
}
