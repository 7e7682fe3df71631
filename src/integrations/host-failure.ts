/** Failure of a call to a code host. The message is for users and contains no credential. */
export class HostFailure extends Error {
  override readonly name = "HostFailure";
  /** `refused`: a retry fails until a user changes something at the host. */
  readonly reason: "unreachable" | "refused" | "missing" | "limited";
  /** Wait that the host requests before a retry; 0: none. */
  readonly retryAfterMs: number;

  constructor(reason: HostFailure["reason"], message: string, retryAfterMs = 0) {
    super(message);
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}
