const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

/** After each failed attempt the next one waits this long: 13 attempts in 26 hours, so that a night or a day off is survived. */
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
 * A message that failed so often, over some eight minutes, no longer holds back those behind it: its receiver may dislike
 * this one alone.
 */
export const orderedAttemptsMax = 5;

/** A receiver must answer within this; it should take the message and work later. */
export const deliveryTimeoutMs = 15 * second;

/** Of an answer, for whoever looks why it failed. */
export const responseTextBytesMax = 1_024;

/** Of messages claimed in a row those are given back that were not begun after this long. */
export const orderedRetryWindowMs = 20 * second;

/** A server that dies while it sends is followed after this long: well above a row's patience and one attempt. */
export const deliveryLeaseMs = 60 * second;

/** A webhook whose message is given up, while nothing got through for this long, is switched off. */
export const webhookFailingMaxMs = 12 * hour;

/** After a secret is replaced, the one before signs too for this long. */
export const secretGraceMs = 24 * hour;

export const webhooksMax = 50;

/** What was sent, and what waits for a webhook that is switched off, is kept this long. */
export const deliveryRetentionDays = 30;

/**
 * When to try again after so many failed attempts.
 * @param random from 0 to 1; spreads what failed together over 0.75 to 1.25 times the wait.
 * @param retryAfterMs what the receiver asked for; heeded up to the longest wait.
 * @returns null: give up.
 */
export function nextAttemptInMs(attempts: number, random: number, retryAfterMs = 0): number | null {
  const waitMs = waitsMs[attempts - 1];
  if (waitMs === undefined) return null;
  const longestMs = Math.max(...waitsMs);
  return Math.round(Math.max(waitMs * (0.75 + random / 2), Math.min(retryAfterMs, longestMs)));
}
