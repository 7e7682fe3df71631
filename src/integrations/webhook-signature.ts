import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { CodeHost } from "../contract/integrations/integration.ts";

/** Proof of the secret per host: an HMAC-SHA256 of the exact body, or the secret itself. */
const proofs: Record<Exclude<CodeHost, "git">, readonly { header: string; prefix: string; isSecret?: true }[]> = {
  github: [{ header: "x-hub-signature-256", prefix: "sha256=" }],
  gitea: [
    { header: "x-hub-signature-256", prefix: "sha256=" },
    { header: "x-gitea-signature", prefix: "" },
    { header: "x-forgejo-signature", prefix: "" },
  ],
  bitbucket: [
    { header: "x-hub-signature-256", prefix: "sha256=" },
    { header: "x-hub-signature", prefix: "sha256=" },
  ],
  gitlab: [{ header: "x-gitlab-token", prefix: "", isSecret: true }],
};

/**
 * Returns whether the sender of a message knows the secret, with a comparison in constant time. GitLab signs the message if the
 * secret was entered as a signing token, and sends the secret if it was entered as a secret token.
 */
export function isSigned(
  host: CodeHost,
  headers: IncomingHttpHeaders,
  body: Buffer,
  secret: string,
  nowMs = Date.now(),
): boolean {
  if (host === "git" || secret === "") return false;
  if (host === "gitlab" && hasSigningToken(headers, body, secret, nowMs)) return true;
  const proof = proofs[host].find(({ header }) => typeof headers[header] === "string");
  if (proof === undefined) return false;
  const given = String(headers[proof.header]);
  const expected = proof.isSecret ? secret : proof.prefix + createHmac("sha256", secret).update(body).digest("hex");
  return isEqual(given, expected);
}

/** Returns whether a message carries any proof of a secret. It costs nothing to ask before the body is read. */
export function carriesProof(headers: IncomingHttpHeaders): boolean {
  return proofHeaders.some((name) => typeof headers[name] === "string");
}

const proofHeaders = [
  "webhook-signature",
  ...Object.values(proofs).flatMap((list) => list.map(({ header }) => header)),
];

const signingPrefix = "whsec_";

/** Older messages are rejected as possible replays. A retry of the host has a new timestamp. */
const signatureLifeMs = 300_000;

/** Signatures of one message that are compared. A host sends one, or two while it replaces a token. The sender decides how many there are. */
const signaturesMax = 8;

/** Checks a signature of Standard Webhooks 1.0, which covers id, timestamp and body, with a key in base64. */
function hasSigningToken(headers: IncomingHttpHeaders, body: Buffer, secret: string, nowMs: number): boolean {
  const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(
    (name) => headers[name],
  );
  if (typeof id !== "string" || typeof timestamp !== "string" || typeof signatures !== "string") return false;
  if (!secret.startsWith(signingPrefix) || !/^\d{1,12}$/.test(timestamp)) return false;
  if (Math.abs(nowMs - Number(timestamp) * 1_000) > signatureLifeMs) return false;
  const key = Buffer.from(secret.slice(signingPrefix.length), "base64");
  const expected = `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64")}`;
  return signatures.split(" ", signaturesMax).some((one) => isEqual(one, expected));
}

/** Creates a secret of 32 bytes in a format that the host accepts. GitLab accepts it as a secret token and as a signing token. */
export function newWebhookSecret(host: CodeHost): string {
  const bytes = randomBytes(32);
  return host === "gitlab" ? signingPrefix + bytes.toString("base64") : bytes.toString("hex");
}

/** Compares digests, because `timingSafeEqual` requires equal lengths. */
function isEqual(a: string, b: string): boolean {
  const digest = (text: string) => createHmac("sha256", "compare").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

/** Returns the id that the host gave a message, which is the same for retries, or null. */
export function deliveryIdOf(headers: IncomingHttpHeaders): string | null {
  const names = [
    ...[
      "webhook-id",
      "x-github-delivery",
      "x-gitea-delivery",
      "x-forgejo-delivery",
      "idempotency-key",
      "x-gitlab-event-uuid",
    ],
    ...["x-request-uuid", "x-request-id"],
  ];
  const found = names.map((name) => headers[name]).find((value) => typeof value === "string" && value !== "");
  return found === undefined ? null : String(found).slice(0, 256);
}
