import { hash, randomBytes, timingSafeEqual } from "node:crypto";

export interface MintedKey {
  /** Shown once, never stored. */
  key: string;
  /** Finds the row; not secret. */
  prefix: string;
  hash: Buffer;
}

/**
 * Makes a key `ph_<12 hex digits>_<32 random bytes, base64url>`, or describes the given one (an operator may choose the
 * first admin key). A key of ours has 256 random bits, so a plain SHA-256 of it cannot be guessed back.
 */
export function mintApiKey(wanted?: string): MintedKey {
  const key = wanted ?? `ph_${randomBytes(6).toString("hex")}_${randomBytes(32).toString("base64url")}`;
  return { key, ...readKey(key) };
}

/** What tells one key from another: `prefix` finds its row, which holds the same `hash`. */
export function readKey(key: string): Omit<MintedKey, "key"> {
  const hash = digestOf(key);
  // A key of another form is found by the beginning of its digest.
  return { prefix: ownForm.exec(key)?.[1] ?? `sha256:${hash.toString("hex", 0, 8)}`, hash };
}

const ownForm = /^ph_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;

/** Compares in constant time. */
export const isSameHash = (one: Buffer, other: Buffer) => one.length === other.length && timingSafeEqual(one, other);

/** What is stored of a key, or of the token of a session. */
export const digestOf = (secret: string) => hash("sha256", secret, "buffer");

/** What a browser that signs in is given: 256 random bits. */
export const mintSessionToken = () => `phs_${randomBytes(32).toString("base64url")}`;
