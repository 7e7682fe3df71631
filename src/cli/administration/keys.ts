import type { ApiKey, CreateApiKey } from "../../contract/administration/api-key.ts";
import type { KeyScope } from "../../contract/administration/organization.ts";
import type { Session } from "../session.ts";
import { choose, everyPage, tableOf } from "../terminal/choose.ts";
import { confirm } from "../terminal/prompt.ts";
import { age, parseDuration } from "../terminal/text.ts";
import { findWorkspace, organizationFilter } from "./tenants.ts";

export async function keysList(
  session: Session,
  _: string[],
  options: { all?: boolean; for?: string; organization?: string },
): Promise<void> {
  const client = await session.client();
  const filter = {
    ...(await organizationFilter(session, options)),
    ...(options.for !== undefined && { workspace_id: (await findWorkspace(session, options.for)).id }),
  };
  const keys = await allKeys(session, { ...filter, include_inactive: options.all === true });
  const workspaces = await everyPage((page) => client.listWorkspaces(page, { signal: session.signal }));
  const names = new Map(workspaces.map(({ id, name }) => [id, name]));
  session.answer({ keys }, () => {
    const rows = keys.map((key) => [
      key.name,
      key.prefix,
      key.role,
      key.scope === "workspace" ? `workspace ${names.get(key.workspace_id ?? "") ?? ""}` : key.scope,
      key.status,
      age(key.created_at),
      key.last_used_at === null ? "never" : `${age(key.last_used_at)} ago`,
      key.expires_at?.slice(0, 10) ?? "never",
    ]);
    return tableOf(session, ["NAME", "KEY", "ROLE", "SCOPE", "STATUS", "AGE", "USED", "EXPIRES"], rows);
  });
}

interface CreateOptions {
  role: string;
  scope?: string;
  for?: string;
  organization?: string;
  listener?: string;
  expires?: string;
}

/** Creates a key and prints only the key to stdout, so that it can be piped into a file or a secret store. */
export async function keysCreate(session: Session, [name = ""]: string[], options: CreateOptions): Promise<void> {
  const client = await session.client();
  const { role, scope, listener, expires } = options;
  const body: CreateApiKey = {
    name,
    role: role as CreateApiKey["role"],
    ...(await organizationFilter(session, options)),
    ...(scope !== undefined && { scope: scope as KeyScope }),
    ...(options.for !== undefined && { workspace_id: (await findWorkspace(session, options.for)).id }),
    ...(listener !== undefined && { listener_id: listener }),
    ...(expires !== undefined && { expires_at: momentToCome(expires) }),
  };
  const made = await client.createApiKey({ body }, { signal: session.signal });
  session.answer(made, () => made.key);
  session.terminal.say(`Created ${name} (${made.role}, ${made.scope}). The key is shown only once. Store it now.`);
}

export async function keysRevoke(session: Session, [wanted = ""]: string[], options: { yes?: boolean }): Promise<void> {
  const client = await session.client();
  const keys = await allKeys(session, { include_inactive: false });
  const byPrefix = keys.find(({ prefix }) => prefix === wanted);
  const key = byPrefix ?? choose(keys, wanted, { what: "key", nameOf: ({ name }: ApiKey) => name });
  if (!options.yes) await confirm(session, `Revoke ${key.name} (${key.prefix}, ${key.role}, ${key.scope})?`);
  await client.revokeApiKey({ api_key_id: key.id }, { signal: session.signal });
  session.answer({ api_key_id: key.id, revoked: true }, () => undefined);
  session.terminal.say(`Revoked ${key.name} (${key.prefix}).`);
}

async function allKeys(
  session: Session,
  filter: { include_inactive: boolean; organization_id?: string; workspace_id?: string },
): Promise<ApiKey[]> {
  const client = await session.client();
  return everyPage((page) => client.listApiKeys({ ...filter, ...page }, { signal: session.signal }));
}

/** Returns a timestamp unchanged, or converts a lifetime to a timestamp. */
function momentToCome(text: string): string {
  if (/^\d{4}-\d{2}-\d{2}/.test(text)) return text;
  return new Date(Date.now() + parseDuration(text)).toISOString();
}
