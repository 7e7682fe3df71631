import { type Draft, emptyDraft } from "./draft.ts";

const prefix = "pierhead.draft.";

/**
 * Returns the draft that this tab kept for a user and a workspace, as it was before a reload. Files and values of variables are
 * never stored: the user chooses and types them again.
 */
export function keptDraft(owner: string): Draft {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(prefix + owner) ?? "{}");
    return { ...emptyDraft, ...(kept as Partial<Draft>) };
  } catch {
    return emptyDraft;
  }
}

export function keepDraft(owner: string, draft: Draft): void {
  const { files: _files, variables, emptied, ...rest } = draft;
  const names = variables.filter(({ name }) => name !== "");
  const lost = names.filter(({ name, value }) => value !== "" || emptied.includes(name)).map(({ name }) => name);
  const stored = { ...rest, variables: names.map(({ name }) => ({ name, value: "" })), emptied: lost };
  sessionStorage.setItem(prefix + owner, JSON.stringify(stored));
}

export function forgetDraft(owner: string): void {
  sessionStorage.removeItem(prefix + owner);
}

/** Forgets the drafts of all workspaces, at the end of a session. */
export function forgetDrafts(): void {
  for (const key of Object.keys(sessionStorage)) if (key.startsWith(prefix)) sessionStorage.removeItem(key);
}
