const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

/** Wait after each failed attempt: 13 attempts in 26 hours, so that a delivery survives a night or a day off. */
const waitsMs = [
  5 * second,
  30 * second,
  2 * minute,
  5 * minute,
  15 * minute,
  hour,
  2 * hour,
  ...Array(5).fill(4.5 * hour),
];

export const deliveryAttemptsMax = waitsMs.length + 1;

/**
 * After this many failures, over about eight minutes, a message no longer holds back later ones, because its receiver may
 * reject only this message.
 */
export const orderedAttemptsMax = 5;

/** Time limit for a receiver's response; a receiver should accept the message and process it later. */
export const deliveryTimeoutMs = 15 * second;

/** The part of a response that is stored, to diagnose failures. */
export const responseTextBytesMax = 1_024;

/** Messages claimed together are released if their attempt has not started after this time. */
export const batchSendWindowMs = 20 * second;

/** Delay until the deliveries of a dead server are sent again: well above the send window and one attempt. */
export const deliveryLeaseMs = 60 * second;

/** A webhook is disabled when a message fails for good and no other delivery succeeded for this long. */
export const webhookFailingMaxMs = 12 * hour;

/** How long a replaced secret also signs. */
export const secretGraceMs = 24 * hour;

export const webhooksMax = 50;

/** Retention of sent deliveries, and of those that wait for a disabled webhook. */
export const deliveryRetentionDays = 30;

/**
 * Returns the wait before the next attempt.
 * @param random from 0 to 1; spreads deliveries that failed together over 0.75 to 1.25 times the wait.
 * @param retryAfterMs requested by the receiver; respected up to the longest wait.
 * @returns null: no further attempt.
 */
export function nextAttemptInMs(attempts: number, random: number, retryAfterMs = 0): number | null {
  const waitMs = waitsMs[attempts - 1];
  if (waitMs === undefined) return null;
  const longestMs = Math.max(...waitsMs);
  return Math.round(Math.max(waitMs * (0.75 + random / 2), Math.min(retryAfterMs, longestMs)));
}
