import { type GitAccess, gitAccess } from "../../integrations/git-access.ts";
import { openIntegration } from "../../store/code-hosts/integrations.ts";
import type { ReconcilerDeps } from "../deps.ts";

/** How a repository of a workspace is reached, with a credential made for this one use. */
export type Remote = GitAccess & { repoUrl: string; allowLocal: boolean };

/** @throws GitFailure when its integration is gone or not for this repository, or the host gives no token. */
export async function remoteOf(
  { db, sealer, github, settings }: Pick<ReconcilerDeps, "db" | "sealer" | "github" | "settings">,
  { tenantId, integrationId, repoUrl }: { tenantId: string; integrationId: string | null; repoUrl: string },
  signal: AbortSignal,
): Promise<Remote> {
  const { allowLocalSources: allowLocal, allowPrivateNetwork } = settings;
  const open = integrationId === null ? null : await openIntegration(db, sealer, { tenantId, id: integrationId });
  const integration = open && { ...open.row, ...open.secrets, installationId: open.row.installation_id };
  const access = await gitAccess({ github, allowPrivateNetwork }, { integration, repoUrl }, signal);
  return { ...access, repoUrl, allowLocal };
}
