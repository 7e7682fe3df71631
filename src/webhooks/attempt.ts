import { sanitizeText } from "../domain/sanitize-text.ts";
import { deliveryTimeoutMs, responseTextBytesMax } from "../domain/webhook-schedule.ts";
import { isAllowedRecipient, type MailSettings, recipientOf, sendMail } from "../integrations/mail.ts";
import { fetchOutward, OutboundFailure } from "../integrations/outbound-fetch.ts";
import { retryAfterMs } from "../integrations/retry-after.ts";
import type { Sealer } from "../store/secrets/seal.ts";
import type { AttemptResult, ClaimedDelivery } from "../store/webhooks/webhook-deliveries.ts";
import { openWebhook } from "../store/webhooks/webhooks.ts";
import { mailOf, slackBody } from "./channels.ts";
import { signedHeaders } from "./signature.ts";

export interface Attempt extends AttemptResult {
  /** Wait that the receiver asked for; 0: none. */
  retryAfterMs: number;
}

interface Sender {
  sealer: Sealer;
  /** By the database's clock, because receivers refuse messages signed minutes away from their own time. */
  now: Date;
  allowPrivateNetwork: boolean;
  /** Whether to record the start of each answer. It may come from a server that the webhook's owner cannot reach. */
  recordsAnswers: boolean;
  version: string;
  /** Address of the console for links in messages; null: unknown. */
  consoleUrl: string | null;
  /** null: this server sends no mail. */
  mail: MailSettings | null;
}

/**
 * Sends a message once. Every response and every failure to get one is a result.
 * @throws the signal's reason when it is aborted: it is then unknown whether the receiver got the message.
 */
export async function attempt(sender: Sender, delivery: ClaimedDelivery, signal: AbortSignal): Promise<Attempt> {
  const { sealer, now, allowPrivateNetwork, recordsAnswers, version, consoleUrl } = sender;
  const began = performance.now();
  const ended = (known: Partial<Attempt>): Attempt => ({
    ...{ responseStatus: null, responseBytes: null, responseText: null, error: null, retryAfterMs: 0 },
    durationMs: performance.now() - began,
    ...known,
  });
  const { url, secrets } = openWebhook(
    sealer,
    { ...delivery, id: delivery.webhookId, tenant_id: delivery.tenantId },
    now,
  );
  if (delivery.format === "email") return ended(await attemptMail(sender, delivery, url, signal));
  const isSigned = delivery.format === "standard";
  const body = isSigned ? delivery.payload : slackBody(delivery.payload, consoleUrl);
  const message = { id: delivery.id, timestamp: Math.floor(now.getTime() / 1_000), body };
  const headers = {
    "content-type": "application/json",
    "user-agent": `pierhead/${version}`,
    ...(isSigned && signedHeaders(message, secrets)),
  };
  try {
    const response = await fetchOutward(
      url,
      { method: "POST", headers, body, signal },
      {
        allowPrivateNetwork,
        plainHttp: "anywhere",
        timeoutMs: deliveryTimeoutMs,
        bytesMax: responseTextBytesMax,
        cuts: true,
      },
    );
    const answer = Buffer.from(await response.arrayBuffer());
    return ended({
      responseStatus: response.status,
      responseBytes: sizeOf(response, answer),
      responseText: recordsAnswers ? sanitizeText(answer.toString()) : null,
      retryAfterMs: retryAfterMs(response.headers),
    });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof OutboundFailure) return ended({ error: error.message });
    throw error;
  }
}

/** Sends a message as mail. A reply of the SMTP server counts like the status of a receiver. */
async function attemptMail(
  { mail, consoleUrl, recordsAnswers }: Sender,
  { id, payload }: ClaimedDelivery,
  url: string,
  signal: AbortSignal,
): Promise<Partial<Attempt>> {
  const to = recipientOf(url);
  if (mail === null) return { error: "This server sends no mail: PIERHEAD_SMTP_URL is not set." };
  if (to === null || !isAllowedRecipient(to, mail.domains)) {
    return { error: "This server sends no mail to this domain: see PIERHEAD_SMTP_DOMAINS." };
  }
  const { code, text } = await sendMail(mail, mailOf(payload, { to, deliveryId: id, consoleUrl }), signal);
  const shown = sanitizeText(text);
  if (code === null) return { error: shown };
  return { responseStatus: code, responseBytes: Buffer.byteLength(text), responseText: recordsAnswers ? shown : null };
}

/** Returns the size of an answer in bytes: the announced one, because only the start of a long answer is read. */
function sizeOf({ headers }: Response, body: Buffer): number {
  const announced = Number(headers.get("content-length") ?? body.length);
  return Number.isInteger(announced) && announced >= body.length && announced <= sizeMax ? announced : body.length;
}

/** The largest size that the store takes. */
const sizeMax = 2_147_483_647;
