import { readFile } from "node:fs/promises";
import path from "node:path";
import type { CodeHost, Integration } from "../../contract/integrations/integration.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { choose, everyPage, tableOf } from "../terminal/choose.ts";
import { confirm } from "../terminal/prompt.ts";
import { readStdin } from "../terminal/stdin.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, shortId } from "../terminal/text.ts";

export async function integrationsList(session: Session): Promise<void> {
  const integrations = await allIntegrations(session);
  session.answer({ integrations }, () => {
    const rows = integrations.map((one) => [
      shortId(one.id),
      one.host,
      one.name,
      one.url,
      credentialOf(one),
      age(one.created_at),
    ]);
    return tableOf(session, ["ID", "HOST", "NAME", "BELOW", "CREDENTIAL", "AGE"], rows);
  });
  if (integrations.length === 0) {
    session.terminal.say(
      "No integrations. GitHub: pierhead integrations install; others: pierhead integrations create URL",
    );
  }
}

export async function integrationsInstall(session: Session): Promise<void> {
  const client = await session.client();
  const link = await client.createInstallationLink({ body: {} }, { signal: session.signal });
  session.answer(link, () => link.install_url);
  session.terminal.say("Open the link in a browser and choose the repositories. It is valid for one hour and one use.");
  if (link.oauth_reuse_url !== null) session.terminal.say(`If the App is already installed: ${link.oauth_reuse_url}`);
}

export async function integrationsPick(session: Session, [id = "", installation]: string[]): Promise<void> {
  const client = await session.client();
  if (installation === undefined) {
    const found = await client.getPickerSession({ session_id: id }, { signal: session.signal });
    return session.answer(found, () => {
      const rows = found.installs.map((one) => [
        String(one.installation_id),
        one.account_login,
        one.already_in_org ? "in use" : "",
      ]);
      return tableOf(session, ["INSTALLATION", "ACCOUNT", ""], rows);
    });
  }
  const body = { action: "ATTACH" as const, installation_id: numberOf(installation) };
  const chosen = await client.selectInstallation({ session_id: id, body }, { signal: session.signal });
  session.answer(chosen, () => undefined);
  session.terminal.say("The workspace can now deploy its repositories.");
}

export async function integrationsAttach(
  session: Session,
  [installation = ""]: string[],
  options: { workspace?: string },
): Promise<void> {
  const installationId = numberOf(installation);
  const client = await session.client();
  const workspaceId = options.workspace ?? (await session.connection()).workspaceId;
  if (!workspaceId) throw usageFailure("Set the workspace: --workspace <id>");
  const body = { installation_id: installationId, workspace_id: workspaceId };
  const made = await client.attachInstallation({ body }, { signal: session.signal });
  session.answer(made, () => made.id);
  session.terminal.say(`The workspace can now deploy the repositories of ${harmless(made.name)}.`);
}

/** Parses an installation number. @throws CliFailure */
function numberOf(installation: string): number {
  if (!/^\d{1,15}$/.test(installation)) throw usageFailure("The installation must be a number, such as 48211903.");
  return Number(installation);
}

interface Credential {
  host: CodeHost;
  name?: string;
  username?: string;
  tokenStdin?: boolean;
  sshKey?: string;
  knownHosts?: string;
}

export async function integrationsCreate(session: Session, [url = ""]: string[], options: Credential): Promise<void> {
  if (!options.tokenStdin && options.sshKey === undefined) {
    throw usageFailure("A credential is missing.", "Use --token-stdin, or --ssh-key with --known-hosts");
  }
  const client = await session.client();
  const made = await client.createIntegration(
    {
      body: {
        ...{ host: options.host, name: options.name ?? url, url },
        ...(options.username !== undefined && { username: options.username }),
        ...(options.tokenStdin && { token: (await readStdin(session.context)).trim() }),
        ...(options.sshKey !== undefined && { ssh_key: await fileText(session, options.sshKey) }),
        ...(options.knownHosts !== undefined && { ssh_known_hosts: await fileText(session, options.knownHosts) }),
      },
    },
    { signal: session.signal },
  );
  session.answer(made, () => made.id);
  if (made.webhook_url === null) return;
  session.terminal.say(`To build pushes, add this webhook to the host: ${made.webhook_url}`);
  session.terminal.say(`Its secret, shown only once: ${made.webhook_secret}`);
}

export async function integrationsRepos(session: Session, [name = ""]: string[]): Promise<void> {
  const client = await session.client();
  const { id } = await findIntegration(session, name);
  const repositories = await client.listGithubRepos({ integration_id: id }, { signal: session.signal });
  session.answer({ repositories }, () => {
    const rows = repositories.map((one) => [`${one.owner}/${one.name}`, one.default_branch, one.url]);
    return tableOf(session, ["REPOSITORY", "BRANCH", "ADDRESS"], rows);
  });
}

export async function integrationsProjects(
  session: Session,
  [url = ""]: string[],
  options: { ref?: string; integration?: string },
): Promise<void> {
  const client = await session.client();
  const integration =
    options.integration === undefined ? undefined : await findIntegration(session, options.integration);
  const query = {
    repo_url: url,
    ...(options.ref !== undefined && { ref: options.ref }),
    ...(integration && { integration_id: integration.id }),
  };
  const found = await client.findAgentProjects(query, { signal: session.signal });
  session.answer(found, () => {
    const rows = found.projects.map(({ kind, config_path }) => [kind, config_path]);
    return tableOf(session, ["KIND", "CONFIG FILE"], rows);
  });
  session.terminal.say(`At ${harmless(found.ref)}, commit ${found.commit_sha.slice(0, 12)}.`);
}

export async function integrationsSecret(
  session: Session,
  [name = ""]: string[],
  options: { stdin?: boolean },
): Promise<void> {
  const client = await session.client();
  const { id } = await findIntegration(session, name);
  const body = options.stdin ? { webhook_secret: (await readStdin(session.context)).trim() } : {};
  const made = await client.replaceIntegrationSecret({ integration_id: id, body }, { signal: session.signal });
  session.answer(made, () => made.webhook_secret);
  session.terminal.say("The new secret is shown only once. Messages signed with the old one are rejected.");
}

export async function integrationsDelete(
  session: Session,
  [name = ""]: string[],
  options: { yes?: boolean },
): Promise<void> {
  const client = await session.client();
  const { id, name: called } = await findIntegration(session, name);
  if (!options.yes) await confirm(session, `Delete the integration ${harmless(called)}?`);
  await client.deleteIntegration({ integration_id: id }, { signal: session.signal });
  session.answer({ integration_id: id, deleted: true }, () => undefined);
}

function credentialOf({ installation_id: installation, has_token, has_ssh_key }: Integration): string {
  if (installation !== null) return `installation ${installation}`;
  return [has_token && "token", has_ssh_key && "SSH key"].filter(Boolean).join(", ");
}

async function allIntegrations(session: Session): Promise<Integration[]> {
  const client = await session.client();
  return everyPage((page) => client.listIntegrations(page, { signal: session.signal }));
}

async function findIntegration(session: Session, wanted: string): Promise<Integration> {
  return choose(await allIntegrations(session), wanted, { what: "integration", nameOf: ({ name }) => name });
}

async function fileText({ context }: Session, file: string): Promise<string> {
  try {
    return await readFile(path.resolve(context.cwd, file), "utf8");
  } catch (error) {
    throw new CliFailure(`Cannot read ${file}.`, { because: (error as Error).message });
  }
}
