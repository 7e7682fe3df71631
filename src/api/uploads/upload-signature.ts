import type { Sealer } from "../../store/secrets/seal.ts";
import { isSignedText, signText } from "../../store/secrets/signature.ts";

/** Signs an upload URL for one upload until one moment. */
export function signUpload(sealer: Sealer, upload: { id: string; expiresAt: Date }): string {
  return signText(sealer, boundTo(upload));
}

export function isSignedUpload(sealer: Sealer, upload: { id: string; expiresAt: Date }, signature: string): boolean {
  return isSignedText(sealer, boundTo(upload), signature);
}

const boundTo = ({ id, expiresAt }: { id: string; expiresAt: Date }) => `upload/${id}/${expiresAt.getTime()}`;
