import type { Sealer } from "../store/seal.ts";

/**
 * Signs what an upload URL says: this upload, until this moment, and nothing else. The signature is an authenticated
 * encryption of nothing under the installation's data key, bound to both, so every server of the installation can check
 * it and no further key needs to be kept.
 */
export function signUpload(sealer: Sealer, upload: { id: string; expiresAt: Date }): string {
  const { keyId, sealed } = sealer.seal(Buffer.alloc(0), boundTo(upload));
  return `${keyId}.${sealed.toString("base64url")}`;
}

export function isSignedUpload(sealer: Sealer, upload: { id: string; expiresAt: Date }, signature: string): boolean {
  const [keyId = "", sealed = ""] = signature.split(".");
  try {
    sealer.open({ keyId, sealed: Buffer.from(sealed, "base64url") }, boundTo(upload));
    return true;
  } catch {
    return false;
  }
}

const boundTo = ({ id, expiresAt }: { id: string; expiresAt: Date }) => `upload/${id}/${expiresAt.getTime()}`;
