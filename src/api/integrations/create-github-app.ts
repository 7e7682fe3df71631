import { appManifest, convertManifest, isReachable, manifestTarget } from "../../integrations/github-manifest.ts";
import { HostFailure } from "../../integrations/host-failure.ts";
import {
  consumeGithubAppLink,
  createGithubApp,
  findGithubAppLink,
  type GithubAppLink,
} from "../../store/code-hosts/github-app.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ApiDeps } from "../deps.ts";
import type { Page } from "../http/browser-page.ts";

/**
 * Returns the page whose button posts the manifest to GitHub: only a form can, and the operator should see what it asks
 * for.
 */
export async function showGithubAppForm(deps: ApiDeps, state: string): Promise<Page> {
  const link = await findGithubAppLink(deps.db, state);
  if (link === undefined) return refused(unusable);
  const serverUrl = deps.settings.ownUrl().replace(/\/+$/, "");
  const manifest = appManifest({ ...link, serverUrl });
  const pushes = isReachable(serverUrl)
    ? "GitHub will notify the server of pushes and pull requests."
    : "GitHub cannot reach this address, so the server polls for pushes every five minutes. If GitHub can reach another address of the server, set PIERHEAD_PUBLIC_URL first.";
  return {
    status: 200,
    title: "Create a GitHub App",
    lines: [
      "GitHub creates an App for this server and sends its keys to the server, which stores them encrypted.",
      pushes,
    ],
    form: {
      action: manifestTarget(link.url, link.account, state),
      fields: { manifest: JSON.stringify(manifest) },
      submit: `Create it at ${new URL(link.url).host}`,
    },
    facts: [
      ["Server", serverUrl],
      ["Owner", link.account ?? "your own account"],
      ["Name", link.name],
      ...Object.entries(manifest.default_permissions).map(([what, how]) => [`May ${how}`, what] as const),
    ],
  };
}

/** Finishes the creation of an App when GitHub redirects back. Only the state identifies the link that started it. */
export async function finishGithubApp(
  deps: ApiDeps,
  query: { state?: string; code?: string; isHead: boolean },
  signal: AbortSignal,
): Promise<Page> {
  const { state, code } = query;
  if (state === undefined || code === undefined)
    return refused("GitHub redirects to this page after it has created an App.");
  const link = await (query.isHead ? findGithubAppLink : consumeGithubAppLink)(deps.db, state);
  if (link === undefined) return refused(unusable);
  if (query.isHead) return { status: 200, title: "Created", lines: [] };
  if ((await deps.github.current()) !== null) return refused(taken);
  try {
    return await saveApp(deps, { link, code }, signal);
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error;
    deps.logger.warn({ error: describeError(error) }, "github app creation failed");
    return refused(`${error.message} Delete the App at GitHub and create another link.`);
  }
}

async function saveApp(
  { db, sealer, settings, logger }: ApiDeps,
  { link, code }: { link: GithubAppLink; code: string },
  signal: AbortSignal,
): Promise<Page> {
  const allowPrivateNetwork = settings.allowPrivateNetwork || link.url === settings.githubUrl;
  const made = await convertManifest({ webUrl: link.url, allowPrivateNetwork }, code, signal);
  const { privateKey, webhookSecret, clientId, clientSecret } = made;
  const secrets = { privateKey, webhookSecret, client: { id: clientId, secret: clientSecret } };
  const row = { app_id: made.appId, name: made.name, url: link.url, page_url: made.pageUrl, secrets };
  if (!(await createGithubApp(db, sealer, link, row))) return refused(taken);
  logger.info({ app_id: made.appId, github_url: link.url, actor: link.actor }, "github app created");
  return {
    status: 200,
    title: "Created",
    lines: [
      `This server now has the GitHub App ${made.name}.`,
      "Next, an admin of a workspace installs it for repositories, with `pierhead integrations install` or on the console's Integrations page.",
    ],
    facts: [["App page", made.pageUrl]],
  };
}

const unusable =
  "This link was already used, is older than an hour, or the key that created it is no longer valid. Create another link.";
const taken = "This server already has a GitHub App. Delete the one that you just created at GitHub.";
const refused = (line: string): Page => ({ status: 400, title: "Not created", lines: [line] });
