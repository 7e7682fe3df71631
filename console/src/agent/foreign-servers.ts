import type { Deployment } from "../../../src/contract/deployments/deployment.ts";

/**
 * Revisions whose server does not speak the agent API. Each is asked once in the life of the tab, because the question appears
 * in its own log. Another revision may speak it.
 */
const key = "pierhead.foreign";
const foreign = new Set(sessionStorage.getItem(key)?.split(","));

const serverOf = ({ id, active_revision_id: revision }: Deployment) => `${id} ${revision}`;

export const isKnownForeign = (deployment: Deployment): boolean => foreign.has(serverOf(deployment));

export function rememberForeign(deployment: Deployment): void {
  foreign.add(serverOf(deployment));
  sessionStorage.setItem(key, [...foreign].join(","));
}

/** Forgets the servers of a user, at the end of the session. */
export function forgetForeign(): void {
  foreign.clear();
  sessionStorage.removeItem(key);
}
