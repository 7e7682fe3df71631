import type { StepDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import { removeDatabases } from "./databases.ts";
import { done, type Performed } from "./performed.ts";
import { isImageKey } from "./resolve-image.ts";

type FinalizeDeps = Pick<StepDeps, "store" | "files" | "databases" | "logger" | "outward">;

/**
 * Removes the databases, uploads and artifacts of a deployment whose replicas are gone. Removing something that is gone
 * already is not an error.
 */
export async function finalizeDeployment(
  deps: FinalizeDeps,
  state: DeploymentState,
  _step: unknown,
  signal: AbortSignal,
): Promise<Performed> {
  const { store, files } = deps;
  for (const { id, deleteTracingProject } of await store.findOrphanedPreviews(state.id)) {
    await store.requestDelete(state.tenantId, id, { deleteTracingProject, force: false, actor: "system" });
  }
  const left = await removeDatabases(deps, state, signal);
  await files.removeUploads(state.id);
  for (const { key } of await store.deleteArtifacts(state.id)) {
    // Another deployment of the same source may be about to use it. Housekeeping removes it once it is unused.
    const isNeeded = isImageKey(key) || (await store.isArtifactKeyUsed(key));
    if (!isNeeded) await files.removeArtifact(key);
  }
  const message = left.length === 0 ? undefined : `Left behind: ${left.join("; ")}.`;
  await store.moveDeployment(state.id, { from: "AWAITING_DELETE", to: "AWAITING_FINAL_DELETE", message });
  store.reached("deployment finalized");
  return done;
}

/** Deletes the logs and then the row with everything that refers to it. From now on the id answers 404 and the name is free. */
export async function deleteDeployment(
  { store }: Pick<StepDeps, "store">,
  state: DeploymentState,
  _step: unknown,
  signal: AbortSignal,
): Promise<Performed> {
  await store.deleteLogs(state.id, signal);
  await store.deleteDeployment(state.id);
  return done;
}
