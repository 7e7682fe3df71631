import type { Principal } from "../../auth/principal.ts";
import { ApiError, errors } from "../../contract/error.ts";
import { isBelow, type OpenIntegration, outsideIntegration } from "../../integrations/git-access.ts";
import { GitFailure } from "../../integrations/git-failure.ts";
import type { GithubApp, GithubApps } from "../../integrations/github-app.ts";
import { HostFailure } from "../../integrations/host-failure.ts";
import { openIntegration, readIntegration } from "../../store/code-hosts/integrations.ts";
import type { ApiDeps } from "../deps.ts";

/** Returns this server's GitHub App. @throws ApiError 400 when it has none. */
export async function requireApp(apps: GithubApps): Promise<GithubApp> {
  const app = await apps.current();
  if (app === null) throw errors.githubAppMissing();
  return app;
}

/**
 * Returns the integration by which a workspace reads a repository; null without an id, undefined for an unknown one.
 */
export async function findOpenIntegration(
  { db, sealer }: Pick<ApiDeps, "db" | "sealer">,
  { tenantId }: Principal,
  id: string | null,
): Promise<OpenIntegration | null | undefined> {
  if (id === null) return null;
  const open = await openIntegration(db, sealer, { tenantId, id });
  return open && { ...open.row, ...open.secrets, installationId: open.row.installation_id };
}

/**
 * Checks that an integration is for a repository.
 * @throws ApiError 400 `invalidField`.
 */
export async function checkIntegration(
  { db }: Pick<ApiDeps, "db">,
  { tenantId }: Principal,
  { integrationId, repoUrl }: { integrationId: string; repoUrl: string },
): Promise<void> {
  const integration = await readIntegration(db, tenantId, integrationId).catch((error) => {
    if (!(error instanceof ApiError)) throw error;
    throw errors.invalidField("source_config.integration_id", "is not an integration of this workspace.");
  });
  if (isBelow(integration.url, repoUrl)) return;
  throw errors.invalidField("source_config.repo_url", `is refused: ${outsideIntegration(repoUrl, integration)}`);
}

/**
 * Calls a code host and translates its failures.
 * @throws ApiError 502 `codeHostFailed` when the host did not answer or refused.
 */
export async function callCodeHost<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof ApiError) throw error;
    if (error instanceof HostFailure || error instanceof GitFailure) throw errors.codeHostFailed(error.message);
    if (error instanceof DOMException) throw errors.codeHostFailed("It took too long.");
    throw error;
  }
}
