import { appManifest, convertManifest, isReachable, manifestTarget } from "../../integrations/github-manifest.ts";
import { HostFailure } from "../../integrations/host-failure.ts";
import {
  createGithubApp,
  findGithubAppLink,
  type GithubAppLink,
  takeGithubAppLink,
} from "../../store/code-hosts/github-app.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ApiDeps } from "../deps.ts";
import type { Page } from "../http/browser-page.ts";

/** Page that hands the manifest to GitHub, by a button: only a form can, and it should be seen what is asked for. */
export async function showGithubAppForm(deps: ApiDeps, state: string): Promise<Page> {
  const link = await findGithubAppLink(deps.db, state);
  if (link === undefined) return refused(unusable);
  const serverUrl = deps.settings.ownUrl().replace(/\/+$/, "");
  const manifest = appManifest({ ...link, serverUrl });
  const pushes = isReachable(serverUrl)
    ? "GitHub will tell it of pushes and pull requests."
    : "GitHub cannot reach this address, so pushes are found within five minutes; set PIERHEAD_PUBLIC_URL first if there is a better one.";
  return {
    status: 200,
    title: "Create a GitHub App",
    lines: [
      "GitHub makes an App for this server and hands its keys to the server, where they are kept sealed.",
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

/** Where GitHub sends whoever has made the App: which link led there says the state, and only that. */
export async function finishGithubApp(
  deps: ApiDeps,
  query: { state?: string; code?: string; isHead: boolean },
  signal: AbortSignal,
): Promise<Page> {
  const { state, code } = query;
  if (state === undefined || code === undefined) return refused("GitHub sends people here when it has made an App.");
  const link = await (query.isHead ? findGithubAppLink : takeGithubAppLink)(deps.db, state);
  if (link === undefined) return refused(unusable);
  if (query.isHead) return { status: 200, title: "Created", lines: [] };
  if ((await deps.github.current()) !== null) return refused(taken);
  try {
    return await saveApp(deps, { link, code }, signal);
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error;
    deps.logger.warn({ error: describeError(error) }, "a github app could not be read");
    return refused(`${error.message} Delete the App there, and make another link.`);
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
  logger.info({ app_id: made.appId, github_url: link.url, actor: link.actor }, "a github app was made");
  return {
    status: 200,
    title: "Created",
    lines: [
      `This server has the GitHub App ${made.name} now.`,
      "Next, an admin of a workspace installs it for repositories: pierhead integrations install, or the console's page of integrations.",
    ],
    facts: [["Its page", made.pageUrl]],
  };
}

const unusable =
  "This link was used before, is older than an hour, or its maker's key is not good any more. Make another.";
const taken = "This server has a GitHub App already. Delete the one that was just made at GitHub.";
const refused = (line: string): Page => ({ status: 400, title: "Not created", lines: [line] });
