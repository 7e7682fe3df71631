import { createHmac } from "node:crypto";

/** What a receiver checks (Standard Webhooks specification 1.0): id and time go into the signature, so none can be replayed. */
export interface SignedMessage {
  id: string;
  /** Seconds since 1970. */
  timestamp: number;
  body: string;
}

/**
 * The headers that go with a message. Of several secrets each signs, newest first: a receiver that knows one of them is
 * content.
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
