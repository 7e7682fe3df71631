/** A code host did not do what it was asked. The message is for users and names no credential. */
export class HostFailure extends Error {
  override readonly name = "HostFailure";
  /** `refused`: asking again will not help until somebody changes something there. */
  readonly reason: "unreachable" | "refused" | "missing" | "limited";
  /** What the host asked for; 0: nothing. */
  readonly retryAfterMs: number;

  constructor(reason: HostFailure["reason"], message: string, retryAfterMs = 0) {
    super(message);
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}
