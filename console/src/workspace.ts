import type { Session } from "../../src/contract/administration/session.ts";

const workspaceKey = "pierhead.workspace";

/** Returns the workspace of the address, or the one that this tab showed last. */
export const chosenWorkspace = (): string | null =>
  /\/o\/([0-9a-f-]{36})\/host\//i.exec(location.pathname)?.[1] ?? sessionStorage.getItem(workspaceKey);

export const keepWorkspace = (id: string): void => sessionStorage.setItem(workspaceKey, id);

/** Returns the workspace to show: the chosen one if the session may see it, else its first one. */
export function workspaceOf(session: Session, chosen: string | null): string {
  const isKnown = session.workspaces.some(({ id }) => id === chosen);
  return (isKnown ? chosen : (session.workspace_id ?? session.workspaces[0]?.id)) ?? "";
}
