import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import type { KeyRole } from "../store/tenants/api-keys.ts";

/** What the control plane states about the caller of an agent, after it checked the caller's credential. */
export interface CallerClaims {
  /** The only deployment that the statement is for. */
  deploymentId: string;
  /** Id of the caller in the audit log, such as `key:<id>`. */
  caller: string;
  role: KeyRole;
  tenantId: string;
  organizationId: string;
}

/** A public key as a JSON Web Key (RFC 8037). */
export interface CallerJwk {
  kty: "OKP";
  crv: "Ed25519";
  alg: "EdDSA";
  use: "sig";
  kid: string;
  x: string;
}

/** Signs statements about callers as JSON Web Tokens (EdDSA), and verifies those that agents send back. */
export interface CallerAssertions {
  sign(claims: CallerClaims): string;
  /** Returns the claims, or undefined for every other text, without a reason. */
  read(token: string): CallerClaims | undefined;
  /** Returns the keys that verify assertions which are still valid. */
  publicKeys(): CallerJwk[];
}

/**
 * Lifetime of an assertion. A gateway uses one for a minute, and a request may wait two minutes for its deployment to wake, so
 * an agent receives a valid one.
 */
export const assertionLifeS = 180;

const purpose = "pierhead caller assertion";

/** PKCS #8 structure of an Ed25519 private key, up to its 32 bytes (RFC 8410, section 7). */
const privateKeyHead = Buffer.from("302e020100300506032b657004220420", "hex");

/** An assertion has about 500 bytes. Longer texts are refused unread. */
const tokenLengthMax = 4_096;

interface KeyPair {
  id: string;
  secret: KeyObject;
  open: KeyObject;
}

/**
 * @param deriveKeys keys of the installation for a purpose, the active one first (`Sealer.deriveKeys`). Every server derives the
 *   same ones, so none is stored.
 * @param issuer returns the address of the control plane.
 */
export function createCallerAssertions(
  { deriveKeys }: { deriveKeys(purpose: string): { keyId: string; bytes: Buffer }[] },
  { issuer, now }: { issuer: () => string; now: () => Date },
): CallerAssertions {
  const pairs = new Map<string, KeyPair>();

  function pairsInUse(): KeyPair[] {
    return deriveKeys(purpose).map(({ keyId, bytes }) => {
      const pair = pairs.get(keyId) ?? pairOf(keyId, bytes);
      pairs.set(keyId, pair);
      return pair;
    });
  }

  return {
    sign({ deploymentId, caller, role, tenantId, organizationId }) {
      const [pair] = pairsInUse();
      if (pair === undefined) throw new Error("there is no data key");
      const iat = Math.floor(now().getTime() / 1_000);
      const claims = { iss: issuer(), aud: deploymentId, sub: caller, iat, exp: iat + assertionLifeS, role };
      const payload = { ...claims, tenant_id: tenantId, organization_id: organizationId };
      const text = `${encoded({ alg: "EdDSA", typ: "JWT", kid: pair.id })}.${encoded(payload)}`;
      return `${text}.${sign(null, Buffer.from(text), pair.secret).toString("base64url")}`;
    },
    read(token) {
      const [head = "", body = "", signature = "", rest] = token.length > tokenLengthMax ? [] : token.split(".");
      const header = decoded(head);
      if (rest !== undefined || header?.["alg"] !== "EdDSA" || header["crit"] !== undefined) return undefined;
      const pair = pairsInUse().find(({ id }) => id === header["kid"]);
      if (pair === undefined) return undefined;
      const isSigned = verify(null, Buffer.from(`${head}.${body}`), pair.open, Buffer.from(signature, "base64url"));
      const claims = isSigned ? decoded(body) : undefined;
      if (claims === undefined || (claims["exp"] as number) * 1_000 <= now().getTime()) return undefined;
      return {
        deploymentId: claims["aud"] as string,
        caller: claims["sub"] as string,
        role: claims["role"] as KeyRole,
        tenantId: claims["tenant_id"] as string,
        organizationId: claims["organization_id"] as string,
      };
    },
    publicKeys: () =>
      pairsInUse().map(({ id, open }) => {
        const { x = "" } = open.export({ format: "jwk" });
        return { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", kid: id, x };
      }),
  };
}

function pairOf(id: string, bytes: Buffer): KeyPair {
  const der = Buffer.concat([privateKeyHead, bytes]);
  const secret = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  return { id, secret, open: createPublicKey(secret) };
}

const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");

function decoded(part: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString());
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
