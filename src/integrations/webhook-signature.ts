import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { CodeHost } from "../contract/integration.ts";

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

/** Does a message come from who knows the secret? Compared in a time that says nothing about how much of it is right. */
export function isSigned(host: CodeHost, headers: IncomingHttpHeaders, body: Buffer, secret: string): boolean {
  if (host === "git" || secret === "") return false;
  const proof = proofs[host].find(({ header }) => typeof headers[header] === "string");
  if (proof === undefined) return false;
  const given = String(headers[proof.header]);
  const expected = proof.isSecret ? secret : proof.prefix + createHmac("sha256", secret).update(body).digest("hex");
  return isEqual(given, expected);
}

/** Both as digests under a key nobody knows, which have one length. */
function isEqual(a: string, b: string): boolean {
  const digest = (text: string) => createHmac("sha256", "compare").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

/** What a host calls one message, the same when it is sent again; null: it has no name. */
export function deliveryIdOf(headers: IncomingHttpHeaders): string | null {
  const names = [
    ...["x-github-delivery", "x-gitea-delivery", "x-forgejo-delivery", "idempotency-key", "x-gitlab-event-uuid"],
    ...["x-request-uuid", "x-request-id"],
  ];
  const found = names.map((name) => headers[name]).find((value) => typeof value === "string" && value !== "");
  return found === undefined ? null : String(found).slice(0, 256);
}
