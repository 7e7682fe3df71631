import type { GithubApp, Installation } from "../../integrations/github-app.ts";
import { HostFailure } from "../../integrations/host-failure.ts";
import { newWebhookSecret } from "../../integrations/webhook-signature.ts";
import { consumeInstallationLink, type InstallationLink } from "../../store/code-hosts/installation-links.ts";
import { createIntegration, isInstallationTaken, noSecrets } from "../../store/code-hosts/integrations.ts";
import { createPickerSession } from "../../store/code-hosts/picker-sessions.ts";
import { findOrganization, findWorkspace } from "../../store/tenants/tenants.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ApiDeps } from "../deps.ts";
import type { Page } from "../http/browser-page.ts";

/**
 * Finishes an installation of the App when GitHub redirects back. Only the state identifies the workspace it is for.
 */
export async function finishInstallation(
  deps: ApiDeps,
  query: { state: string; installation_id?: number; setup_action?: string; code?: string },
  signal: AbortSignal,
): Promise<Page> {
  const { db, sealer, logger } = deps;
  if (query.setup_action === "request") {
    return pageOf("Approval requested", [
      "GitHub asked an owner of the organization to approve the App. Use the link again after they have approved it.",
    ]);
  }
  const github = await deps.github.current();
  const isSignIn = query.installation_id === undefined && query.code !== undefined && query.setup_action === undefined;
  if (github === null || (query.installation_id === undefined && !isSignIn)) {
    return refused("GitHub did not name an installation.");
  }
  const link = await consumeInstallationLink(db, query.state);
  if (link === undefined) return refused(unusable);
  try {
    if (query.installation_id === undefined) return await openPicker(deps, github, link, query.code ?? "", signal);
    const installation = await github.readInstallation(query.installation_id, signal);
    const problem = await ownershipProblem(deps, github, { installation, link, code: query.code ?? null }, signal);
    if (problem !== null) return refused(problem);
    const row = await createIntegration(db, sealer, link, appIntegration(github, installation));
    const lines = [`This workspace can now deploy the repositories of ${row.name}.`, unknown, done];
    const back = link.returnTo !== null && { back: link.returnTo };
    return { ...pageOf("Installed", lines), facts: await factsOf(deps, link), ...back };
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error;
    logger.warn({ error: describeError(error) }, "github installation failed");
    return refused(error.message);
  }
}

/** Returns the names of the workspace that made the link: a person may have got it from a stranger. */
async function factsOf({ db }: ApiDeps, { tenantId, organizationId }: InstallationLink) {
  const reach = { organizationId, workspaceId: tenantId };
  const [workspace, organization] = await Promise.all([
    findWorkspace(db, tenantId),
    findOrganization(db, reach, organizationId),
  ]);
  return [
    ["Workspace", workspace?.name ?? tenantId],
    ["Organization", organization?.name ?? organizationId],
  ] as const;
}

/** Lets a user who signed in at GitHub choose among their installations, with a key of the link's workspace. */
async function openPicker(
  { db, settings }: ApiDeps,
  github: GithubApp,
  link: InstallationLink,
  code: string,
  signal: AbortSignal,
): Promise<Page> {
  const usable = await github.installationsOfUser(code, signal);
  const id = await createPickerSession(db, link, usable);
  return {
    ...pageOf("Choose", ["Choose which of your accounts the workspace may deploy from."]),
    back: `${settings.ownUrl().replace(/\/+$/, "")}/host/integrations?${new URLSearchParams({ picker_session: id })}`,
    facts: [
      ["Or with the command", `pierhead integrations pick ${id}`],
      ...usable.map((one) => ["Account", `${one.account}, installation ${one.id}`] as const),
    ],
  };
}

/**
 * Returns why the installation cannot be trusted; null when it can. The browser sends the installation id, so anybody
 * could name an installation that is not theirs. The App's own sign-in proves ownership where the operator has
 * configured it. Elsewhere the installation must be new: younger than the link, and not yet used by any workspace.
 */
async function ownershipProblem(
  { db, settings }: ApiDeps,
  github: GithubApp,
  { installation, link, code }: { installation: Installation; link: InstallationLink; code: string | null },
  signal: AbortSignal,
): Promise<string | null> {
  if (github.provesOwners) {
    const usable = code === null ? [] : await github.installationsOfUser(code, signal);
    return usable.some(({ id }) => id === installation.id)
      ? null
      : "You have no access to this installation at GitHub.";
  }
  if (settings.mode === "cloud")
    return "This server cannot check who owns the installation, because its operator has not set PIERHEAD_GITHUB_CLIENT_ID.";
  const isNew = installation.createdAt.getTime() >= link.createdAt.getTime() - clockSkewMs;
  if (isNew && !(await isInstallationTaken(db, installation.id))) return null;
  return "The App was already installed there. An operator can attach it with `pierhead integrations attach`.";
}

/** GitHub's timestamps are whole seconds, and its clock may differ from ours. */
const clockSkewMs = 60_000;

/** Returns the settings of an integration for an installation. */
export function appIntegration(github: GithubApp, installation: Installation) {
  return {
    host: "github",
    name: installation.account,
    installation_id: installation.id,
    url: `${github.webUrl}/${installation.account}`,
    username: null,
    secrets: { ...noSecrets, webhookSecret: newWebhookSecret("github") },
  } as const;
}

const unusable =
  "This link was already used, is older than an hour, or its creator is no longer an admin of the workspace. Create another link.";
const unknown =
  "If you do not know the workspace, the link that you followed is of another person. Then uninstall the App at GitHub.";
const done = "You can close this window and go back to where you came from.";
const pageOf = (title: string, lines: string[]): Page => ({ status: 200, title, lines });
const refused = (line: string): Page => ({ status: 400, title: "Not installed", lines: [line] });
