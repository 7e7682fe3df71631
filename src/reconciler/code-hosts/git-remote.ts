import { type GitAccess, gitAccess } from "../../integrations/git-access.ts";
import type { StepDeps } from "../deps.ts";
import type { ReconcilerStore } from "../store.ts";

/** A repository of a workspace, with a credential that was minted for this one use. */
export type Remote = GitAccess & { repoUrl: string; allowLocal: boolean };

interface RemoteDeps extends Pick<StepDeps, "github" | "settings"> {
  store: Pick<ReconcilerStore, "openIntegration">;
}

/** @throws GitFailure when the integration is gone or not for this repository, or the host grants no token */
export async function openRemote(
  { store, github, settings }: RemoteDeps,
  { tenantId, integrationId, repoUrl }: { tenantId: string; integrationId: string | null; repoUrl: string },
  signal: AbortSignal,
): Promise<Remote> {
  const { allowLocalSources: allowLocal, allowPrivateNetwork } = settings;
  const open = integrationId === null ? null : await store.openIntegration({ tenantId, id: integrationId });
  const integration = open && { ...open.row, ...open.secrets, installationId: open.row.installation_id };
  const access = await gitAccess({ github, allowPrivateNetwork }, { integration, repoUrl }, signal);
  return { ...access, repoUrl, allowLocal };
}
