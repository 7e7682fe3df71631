import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { CodeHost } from "../contract/integrations/integration.ts";

/** How a host proves that it knows the secret: HMAC-SHA256 of the very bytes it sent, or the secret itself. */
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
 * Does a message come from who knows the secret? Compared in a time that says nothing about how much of it is right.
 * GitLab signs where the secret was given to it as a signing token, and sends it where it was given as a secret token.
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

const signingPrefix = "whsec_";

/** A message as old as that may have been recorded; hosts try again with a new time. */
const signatureLifeMs = 300_000;

/** Standard Webhooks 1.0: name and time of the message are signed with it, by a key in base64. */
function hasSigningToken(headers: IncomingHttpHeaders, body: Buffer, secret: string, nowMs: number): boolean {
  const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(
    (name) => headers[name],
  );
  if (typeof id !== "string" || typeof timestamp !== "string" || typeof signatures !== "string") return false;
  if (!secret.startsWith(signingPrefix) || !/^\d{1,12}$/.test(timestamp)) return false;
  if (Math.abs(nowMs - Number(timestamp) * 1_000) > signatureLifeMs) return false;
  const key = Buffer.from(secret.slice(signingPrefix.length), "base64");
  const expected = `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64")}`;
  return signatures.split(" ").some((one) => isEqual(one, expected));
}

/** 32 bytes, in a form that the host takes; GitLab takes it as secret token and as signing token. */
export function newWebhookSecret(host: CodeHost): string {
  const bytes = randomBytes(32);
  return host === "gitlab" ? signingPrefix + bytes.toString("base64") : bytes.toString("hex");
}

/** Both as digests under a key nobody knows, which have one length. */
function isEqual(a: string, b: string): boolean {
  const digest = (text: string) => createHmac("sha256", "compare").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

/** What a host calls one message, the same when it is sent again; null: it has no name. */
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
