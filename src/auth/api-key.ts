import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { signInCodePrefix } from "../contract/administration/session.ts";

export interface MintedKey {
  /** Shown once, never stored. */
  key: string;
  /** Identifies the row of the key. Not secret. */
  prefix: string;
  hash: Buffer;
}

/**
 * Creates a key `ph_<12 hex digits>_<32 random bytes, base64url>`, or returns the record of the given one (an operator may
 * choose the first admin key). A generated key has 256 random bits, so its plain SHA-256 cannot be reversed.
 */
export function mintApiKey(wanted?: string): MintedKey {
  const key = wanted ?? `ph_${randomBytes(6).toString("hex")}_${randomBytes(32).toString("base64url")}`;
  return { key, ...readKey(key) };
}

/** Returns the lookup data of a key: `prefix` finds its row, which must have the same `hash`. */
export function readKey(key: string): Omit<MintedKey, "key"> {
  const hash = digestOf(key);
  // A key of another form is found by the start of its digest.
  return { prefix: ownForm.exec(key)?.[1] ?? `sha256:${hash.toString("hex", 0, 8)}`, hash };
}

const ownForm = /^ph_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;

/** Compares two digests in constant time. */
export const isSameHash = (one: Buffer, other: Buffer) => one.length === other.length && timingSafeEqual(one, other);

/** Returns the digest that is stored of a key or of a session token. */
export const digestOf = (secret: string) => hash("sha256", secret, "buffer");

/** Returns a new code for a sign-in link, with 256 random bits. */
export const mintSignInCode = () => `${signInCodePrefix}${randomBytes(32).toString("base64url")}`;

/** Returns the digest that is stored of a sign-in code. It differs from that of a session, so a code is never a session token. */
export const digestOfCode = (code: string) => digestOf(`sign-in:${code}`);

/** Returns a new secret of a command line that waits for a key, with 256 random bits. */
export const mintDeviceCode = () => `phd_${randomBytes(32).toString("base64url")}`;

/**
 * Returns the key that a command line gets for its device code: the same one each time, so that it can ask again when an answer
 * was lost. Digests of different texts do not reveal each other, so the stored digest of the code reveals nothing about the key.
 */
export function keyOfDeviceCode(deviceCode: string): MintedKey {
  const part = (name: string) => digestOf(`device-key:${name}:${deviceCode}`);
  return mintApiKey(`ph_${part("prefix").toString("hex", 0, 6)}_${part("secret").toString("base64url")}`);
}

/** Returns a new session token for a browser, with 256 random bits. */
export const mintSessionToken = () => `phs_${randomBytes(32).toString("base64url")}`;
