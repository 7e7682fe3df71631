import type { Sealer } from "./seal.ts";

/**
 * Signs a text: an authenticated encryption of nothing under the installation's data key, bound to it. Every server of
 * the installation can check it, and no further key needs to be kept.
 */
export function signText(sealer: Sealer, text: string): string {
  const { keyId, sealed } = sealer.seal(Buffer.alloc(0), text);
  return `${keyId}.${sealed.toString("base64url")}`;
}

export function isSignedText(sealer: Sealer, text: string, signature: string): boolean {
  const [keyId = "", sealed = ""] = signature.split(".");
  try {
    sealer.open({ keyId, sealed: Buffer.from(sealed, "base64url") }, text);
    return true;
  } catch {
    return false;
  }
}

/** The same for rooms that know no store. */
export const textSigner = (sealer: Sealer) => ({
  sign: (text: string) => signText(sealer, text),
  isSigned: (text: string, signature: string) => isSignedText(sealer, text, signature),
});
