import type { Sealer } from "./seal.ts";

/**
 * Signs a text: seals an empty value under the installation's data key, bound to the text. Every server of the installation
 * can verify it, and no further key needs to be stored.
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

/** Returns the same functions for modules that do not depend on the store. */
export const textSigner = (sealer: Sealer) => ({
  sign: (text: string) => signText(sealer, text),
  isSigned: (text: string, signature: string) => isSignedText(sealer, text, signature),
});
