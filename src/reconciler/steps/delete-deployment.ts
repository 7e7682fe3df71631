import { dropArtifactsOf } from "../../store/builds/artifacts.ts";
import { findOrphanedPreviews } from "../../store/code-hosts/previews.ts";
import { deleteDeploymentRow, moveDeployment, requestDelete } from "../../store/deployments/deployments.ts";
import { dropLogEntries, findKnownArtifactKeys } from "../../store/maintenance/retention.ts";
import type { ReconcilerDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import { removeDatabases } from "./databases.ts";
import type { Performed } from "./perform.ts";
import { isImageKey } from "./resolve.ts";

/** The data plane is done with it: what is left are files. Removing what is gone already is no error. */
export async function finalizeDeployment(
  deps: ReconcilerDeps,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<Performed> {
  const { db, files } = deps;
  for (const { id, deleteTracingProject } of await findOrphanedPreviews(db, state.id)) {
    await requestDelete(db, state.tenantId, id, { deleteTracingProject, force: false, actor: "system" });
  }
  const left = await removeDatabases(deps, state, signal);
  await files.removeUploads(state.id);
  const doomed = await db.transaction((trx) => dropArtifactsOf(trx, state.id));
  for (const { key } of doomed) {
    // Another deployment of the same source may be on its way to it; what nobody uses in the end, housekeeping finds.
    const isWanted = isImageKey(key) || (await findKnownArtifactKeys(db, [key])).has(key);
    if (!isWanted) await files.removeArtifact(key);
  }
  const message = left.length === 0 ? undefined : `Left behind: ${left.join("; ")}.`;
  await moveDeployment(db, state.id, { from: "AWAITING_DELETE", to: "AWAITING_FINAL_DELETE", message });
  db.reached("deployment finalized");
  return { kind: "done" };
}

/** Drops the row with all that hangs on it; from now on the id answers 404 and the name is free. */
export async function forgetDeployment(
  { db }: ReconcilerDeps,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<Performed> {
  await dropLogEntries(db, state.id, signal);
  await deleteDeploymentRow(db, state.id);
  return { kind: "done" };
}
