import type { Environment } from "./environment.ts";

/** The environment when the changes began, and with the changes. */
interface Staged {
  base: Environment;
  staged: Environment;
}

/** Changes that are not deployed yet, by deployment. They survive other pages, but neither a reload nor a sign-out. */
const changes = new Map<string, Staged>();

export const stagedChangesOf = (deploymentId: string): Staged | undefined => changes.get(deploymentId);

export function keepStagedChanges(deploymentId: string, now: Staged): void {
  if (now.base === now.staged) changes.delete(deploymentId);
  else changes.set(deploymentId, now);
}

export const forgetStagedChanges = (): void => changes.clear();
