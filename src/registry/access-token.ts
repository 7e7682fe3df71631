/** Signs texts so that this installation knows them again; nothing has to be kept. */
export interface Signer {
  sign(text: string): string;
  isSigned(text: string, signature: string): boolean;
}

/** What a token allows: images below the name of one deployment. */
export interface Access {
  deploymentId: string;
  kind: "push" | "pull";
}

/** Long enough for a push of gigabytes, whose every request carries it; contract D10 asks for half an hour at least. */
export const accessTokenLifeMs = 3_600_000;

/** Repositories of a deployment's images begin so: the rest of `/v2/` is the API's (contract D10). */
export const repositoryPrefix = (deploymentId: string) => `r/${deploymentId}/`;

/** Docker sends it as the password of this user (contract D10); we accept any name. */
export const tokenUser = "oauth2accesstoken";

export function signAccess(signer: Signer, access: Access, now = Date.now()): string {
  const text = `${access.kind}.${access.deploymentId}.${now + accessTokenLifeMs}`;
  return `${text}.${signer.sign(boundTo(text))}`;
}

/** @returns null for a token that is none of ours, was changed or is too old. */
export function readAccess(signer: Signer, token: string, now = Date.now()): Access | null {
  const [, text = "", kind, deploymentId = "", expiresAt, signature = ""] =
    /^((push|pull)\.([0-9a-f-]{36})\.(\d{13}))\.(.+)$/.exec(token) ?? [];
  if (kind === undefined || Number(expiresAt) <= now || !signer.isSigned(boundTo(text), signature)) return null;
  return { deploymentId, kind: kind as Access["kind"] };
}

const boundTo = (text: string) => `registry/${text}`;
