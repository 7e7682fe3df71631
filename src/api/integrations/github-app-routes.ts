import { errors } from "../../contract/error.ts";
import type { ServerGithubApp } from "../../contract/integrations/github-app.ts";
import { operations } from "../../contract/operations.ts";
import { githubAddress } from "../../integrations/github-app.ts";
import { createGithubAppLink, deleteGithubApp, findGithubApp } from "../../store/code-hosts/github-app.ts";
import { type Api, adminRoute, pageRoute } from "../http/route.ts";
import { finishGithubApp, showGithubAppForm } from "./create-github-app.ts";

/** The server's own GitHub App: made at GitHub by one click of an operator, shown, and forgotten. */
export function addGithubAppRoutes(api: Api): void {
  const { db, sealer, github, settings } = api.deps;

  adminRoute(api, operations.createGithubAppLink, async ({ principal, body }) => {
    await checkFree();
    const url = githubAddress(body.github_url ?? settings.githubUrl);
    if (url === null) throw errors.invalidField("github_url", "must be such as https://github.example.org.");
    const serverUrl = settings.ownUrl().replace(/\/+$/, "");
    const { state, expiresAt } = await createGithubAppLink(db, {
      ...{ keyId: principal.keyId, organizationId: principal.organizationId, actor: principal.actor, url },
      account: body.organization ?? null,
      name: body.name ?? `Pierhead ${new URL(serverUrl).hostname}`.slice(0, nameLengthMax),
      isPublic: body.public ?? settings.mode === "cloud",
    });
    const create_url = `${serverUrl}/v2/auth/github-app?${new URLSearchParams({ state })}`;
    return { create_url, expires_at: expiresAt.toISOString() };
  });

  adminRoute(api, operations.getGithubApp, async (): Promise<ServerGithubApp> => {
    const app = await github.current();
    if (app === null) throw errors.githubAppMissing();
    const made = github.isConfigured ? undefined : await findGithubApp(db, sealer);
    return {
      app_id: app.appId,
      source: github.isConfigured ? "configuration" : "manifest",
      github_url: app.webUrl,
      name: made?.name ?? null,
      page_url: made?.page_url ?? null,
      hears_pushes: app.webhookSecret !== null,
      proves_owners: app.provesOwners,
      created_at: made?.created_at.toISOString() ?? null,
    };
  });

  adminRoute(api, operations.deleteGithubApp, async ({ principal }) => {
    if (github.isConfigured) throw errors.githubAppFixed(inConfiguration);
    if (!(await deleteGithubApp(db, principal))) throw errors.githubAppMissing();
  });

  pageRoute(api, operations.showGithubAppForm, ({ query }) => showGithubAppForm(api.deps, query.state ?? ""));
  pageRoute(api, operations.finishGithubApp, ({ query, request, signal }) =>
    // Whoever only asks whether the page is there spends no code.
    finishGithubApp(api.deps, { ...query, isHead: request.method === "HEAD" }, signal),
  );

  /** @throws ApiError 409 */
  async function checkFree(): Promise<void> {
    if (github.isConfigured && (await github.current()) !== null) throw errors.githubAppFixed(inConfiguration);
    const made = await findGithubApp(db, sealer);
    if (made !== undefined) throw errors.githubAppFixed(`${made.name}: delete it before you make another one.`);
  }
}

/** GitHub takes no longer ones. */
const nameLengthMax = 34;

const inConfiguration = "It stands in the server's configuration, PIERHEAD_GITHUB_APP_ID.";
