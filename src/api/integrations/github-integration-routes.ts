import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import type { GithubIntegration, GithubRepository } from "../../contract/integrations/integration.ts";
import { operations } from "../../contract/operations.ts";
import { integrationsMax } from "../../domain/limits.ts";
import type { GithubApp, Installation } from "../../integrations/github-app.ts";
import { HostFailure } from "../../integrations/host-failure.ts";
import { RepositoryCache } from "../../integrations/repository-cache.ts";
import { createInstallationLink } from "../../store/code-hosts/installation-links.ts";
import {
  createIntegration,
  type IntegrationRow,
  listIntegrations,
  readIntegration,
} from "../../store/code-hosts/integrations.ts";
import { findWorkspace } from "../../store/tenants/tenants.ts";
import { type Api, adminRoute, route } from "../http/route.ts";
import { callCodeHost, requireApp } from "./call-code-host.ts";
import { appIntegration } from "./finish-installation.ts";

/** Adds the routes of the GitHub App as existing clients know them (contract 3.6). */
export function addGithubRoutes(api: Api): void {
  const { db, sealer, github } = api.deps;
  const cache = new RepositoryCache();

  const installs = async (principal: Principal): Promise<IntegrationRow[]> =>
    listIntegrations(db, principal.tenantId, { limit: integrationsMax, offset: 0, isApp: true });

  const repositories = async (principal: Principal, id: string): Promise<GithubRepository[]> => {
    const { installation_id: installationId } = await readIntegration(db, principal.tenantId, id);
    if (installationId === null)
      throw errors.invalidField("integration_id", "is not an installation of the GitHub App.");
    const found = await callCodeHost(async () => cache.list(await requireApp(github), installationId));
    return found.map(({ defaultBranch, ...one }) => ({
      host_integration_id: id,
      ...one,
      default_branch: defaultBranch,
    }));
  };

  for (const operation of [operations.listGithubInstalls, operations.listForgeInstalls] as const) {
    route(api, operation, async ({ principal }) => (await installs(principal)).map(installOf));
  }
  for (const operation of [operations.listGithubRepos, operations.listForgeRepos] as const) {
    route(api, operation, ({ principal, params }) => repositories(principal, params.integration_id));
  }
  route(api, operations.pageGithubInstallations, async ({ principal, query }) =>
    pageOf((await installs(principal)).map(installOf), query),
  );
  route(api, operations.pageGithubRepositories, async ({ principal, params, query }) =>
    pageOf(await repositories(principal, params.integration_id), query),
  );
  route(api, operations.pageForgeInstallations, async ({ principal, query, signal }) => {
    const { items, next_cursor } = pageOf(await installs(principal), query);
    const app = await github.current();
    const shown = items.map(async (row) => {
      const { repositorySelection = null, settingsUrl = null } =
        app === null ? {} : await callCodeHost(() => knownInstallation(app, row.installation_id as number, signal));
      return { ...installOf(row), repository_selection: repositorySelection, settings_url: settingsUrl };
    });
    return { items: await Promise.all(shown), next_cursor };
  });

  for (const operation of [operations.createInstallationLink, operations.createForgeInstallationLink] as const) {
    route(api, operation, async ({ principal, body, signal }) => {
      const returnTo = checkedReturn(body.return_to ?? null, api.deps.settings.ownUrl());
      const app = await requireApp(github);
      const page = await callCodeHost(() => app.installUrl(signal));
      const state = await createInstallationLink(db, principal, returnTo);
      return { install_url: `${page}?${new URLSearchParams({ state })}`, oauth_reuse_url: app.signInUrl(state) };
    });
  }

  adminRoute(api, operations.attachInstallation, async ({ principal, body, signal }) => {
    const app = await requireApp(github);
    const workspace = await findWorkspace(db, body.workspace_id, principal.reach);
    if (workspace === undefined) throw errors.workspaceNotFound(body.workspace_id);
    const installation = await callCodeHost(() => app.readInstallation(body.installation_id, signal));
    const owner = { organizationId: workspace.organization_id, tenantId: workspace.id, actor: principal.actor };
    return installOf(await createIntegration(db, sealer, owner, appIntegration(app, installation)));
  });
}

const installOf = ({ id, installation_id, name }: IntegrationRow): GithubIntegration => ({
  id,
  installation_id: installation_id as number,
  name,
});

/**
 * Returns what GitHub knows of an installation; nothing when it was removed at GitHub but the workspace still lists it.
 */
async function knownInstallation(app: GithubApp, id: number, signal: AbortSignal): Promise<Partial<Installation>> {
  return app.readInstallation(id, signal).catch((error: unknown) => {
    if (error instanceof HostFailure && error.reason === "missing") return {};
    throw error;
  });
}

/**
 * Returns a page of a complete list. The cursor is the number of items before the page; an empty one starts at the
 * first.
 */
function pageOf<T>(all: readonly T[], { page_size: size, cursor }: { page_size: number; cursor?: string | undefined }) {
  const from = Number(cursor || 0);
  if (cursor && !/^\d{1,6}$/.test(cursor)) {
    throw errors.invalidField("cursor", "must be the next_cursor of an earlier page.");
  }
  const items = all.slice(from, from + size);
  return { items, next_cursor: from + size < all.length ? String(from + size) : null };
}

/** Accepts only addresses of this server: any other would make it an open redirect. */
function checkedReturn(text: string | null, ownUrl: string): string | null {
  if (text === null) return null;
  const base = new URL(ownUrl);
  const isPlain = !/[\p{Cc}\\]/u.test(text) && URL.canParse(text, base.href);
  const url = isPlain ? new URL(text, base) : null;
  if (url?.origin === base.origin) return url.href;
  throw errors.invalidField("return_to", "must be an address of this server, or a path on it.");
}
