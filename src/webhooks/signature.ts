import { createHmac } from "node:crypto";

/** The signed content (Standard Webhooks specification 1.0): it includes id and time, so that a message cannot be replayed. */
export interface SignedMessage {
  id: string;
  /** Seconds since 1970. */
  timestamp: number;
  body: string;
}

/**
 * Returns the headers of a message. Each secret signs, newest first, so that a receiver needs only one of them.
 * @param secrets `whsec_` and base64.
 */
export function signedHeaders(message: SignedMessage, secrets: readonly string[]): Record<string, string> {
  return {
    "webhook-id": message.id,
    "webhook-timestamp": String(message.timestamp),
    "webhook-signature": secrets.map((secret) => `v1,${signatureOf(message, secret)}`).join(" "),
  };
}

function signatureOf({ id, timestamp, body }: SignedMessage, secret: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  return createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
}
