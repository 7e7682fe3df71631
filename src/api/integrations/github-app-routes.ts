import { errors } from "../../contract/error.ts";
import type { ServerGithubApp } from "../../contract/integrations/github-app.ts";
import { operations } from "../../contract/operations.ts";
import { githubAddress } from "../../integrations/github-app.ts";
import { createGithubAppLink, deleteGithubApp, findGithubApp } from "../../store/code-hosts/github-app.ts";
import { type Api, adminRoute, pageRoute } from "../http/route.ts";
import { finishGithubApp, showGithubAppForm } from "./create-github-app.ts";

/** Adds the routes that create the server's own GitHub App with one click of an operator, show it and delete it. */
export function addGithubAppRoutes(api: Api): void {
  const { db, sealer, github, settings } = api.deps;

  adminRoute(api, operations.createGithubAppLink, async ({ principal, body }) => {
    await checkFree();
    const url = githubAddress(body.github_url ?? settings.githubUrl);
    if (url === null) throw errors.invalidField("github_url", "must be a URL such as https://github.example.org.");
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
    // A HEAD request must not spend the code.
    finishGithubApp(api.deps, { ...query, isHead: request.method === "HEAD" }, signal),
  );

  /** @throws ApiError 409 when this server already has an App. */
  async function checkFree(): Promise<void> {
    if (github.isConfigured && (await github.current()) !== null) throw errors.githubAppFixed(inConfiguration);
    const made = await findGithubApp(db, sealer);
    if (made !== undefined) throw errors.githubAppFixed(`It is ${made.name}. Delete it before you create another one.`);
  }
}

/** GitHub's limit. */
const nameLengthMax = 34;

const inConfiguration = "It is set in the server's configuration with PIERHEAD_GITHUB_APP_ID.";
