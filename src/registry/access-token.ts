/** Signs texts so that this installation can verify them later without storing anything. */
export interface Signer {
  sign(text: string): string;
  isSigned(text: string, signature: string): boolean;
}

/** Access that a token grants: to the images below the name of one deployment. */
export interface Access {
  deploymentId: string;
  kind: "push" | "pull";
}

/** Lifetime of a token. Every request of a push carries it, and a push can be gigabytes. Contract D10 requires half an hour. */
export const accessTokenLifeMs = 3_600_000;

/** Returns the prefix of a deployment's repositories. The rest of `/v2/` belongs to the API (contract D10). */
export const repositoryPrefix = (deploymentId: string) => `r/${deploymentId}/`;

/** User name with which docker sends the token as the password (contract D10). The server accepts any name. */
export const tokenUser = "oauth2accesstoken";

/** Returns a signed token that is valid for an hour. */
export function signAccess(signer: Signer, access: Access, now = Date.now()): string {
  const text = `${access.kind}.${access.deploymentId}.${now + accessTokenLifeMs}`;
  return `${text}.${signer.sign(boundTo(text))}`;
}

/** Returns the access that a token grants, or null if the token is foreign, modified or expired. */
export function readAccess(signer: Signer, token: string, now = Date.now()): Access | null {
  const [, text = "", kind, deploymentId = "", expiresAt, signature = ""] =
    /^((push|pull)\.([0-9a-f-]{36})\.(\d{13}))\.(.+)$/.exec(token) ?? [];
  if (kind === undefined || Number(expiresAt) <= now || !signer.isSigned(boundTo(text), signature)) return null;
  return { deploymentId, kind: kind as Access["kind"] };
}

const boundTo = (text: string) => `registry/${text}`;
