import type { ErrorCode, ValidationItem } from "../contract/error.ts";
import type { Revision } from "../contract/revisions/revision.ts";

/** The server answered and refused. `message` is what a person should read. */
export class ApiFailure extends Error {
  override readonly name = "ApiFailure";
  /** HTTP status, 400 to 599. */
  readonly status: number;
  /** Which refusal of the catalogue (docs/reference/errors.md); null: another server or a proxy answered, or a bug of ours. */
  readonly code: ErrorCode | null;
  /** The refusal in one text; a validation answer (422) as `place: problem; place: problem`. */
  readonly detail: string;
  /** The single problems of a 422, else null. */
  readonly items: readonly ValidationItem[] | null;
  /** Id under which the server logged the request; null when it gave none. */
  readonly requestId: string | null;
  /** `GET /v2/deployments`: which call it was, without query. */
  readonly call: string;

  constructor(answer: Pick<ApiFailure, "status" | "code" | "detail" | "items" | "requestId" | "call">) {
    super(answer.detail);
    this.status = answer.status;
    this.code = answer.code;
    this.detail = answer.detail;
    this.items = answer.items;
    this.requestId = answer.requestId;
    this.call = answer.call;
  }
}

/** Is it one of these refusals? `isRefusal(error, "nameTaken")` */
export function isRefusal<C extends ErrorCode>(error: unknown, ...codes: C[]): error is ApiFailure & { code: C } {
  return error instanceof ApiFailure && codes.some((code) => code === error.code);
}

/** No answer: refused, reset, unresolved, or later than the deadline. `cause` is the last error of the transport. */
export class ServerUnreachable extends Error {
  override readonly name = "ServerUnreachable";
  readonly url: string;

  constructor(url: string, because: string, options?: ErrorOptions) {
    super(`No answer from ${url}: ${because}`, options);
    this.url = url;
  }
}

/** What was waited for did not come in time. It may still come: nothing was stopped. */
export class WaitTimeout extends Error {
  override readonly name = "WaitTimeout";
  /** The last state seen, when a revision was waited for. */
  readonly revision: Revision | null;

  constructor(message: string, revision: Revision | null = null) {
    super(message);
    this.revision = revision;
  }
}

/** Worth another try later: the server is away, busy, or broke on this one call. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ServerUnreachable) return true;
  return error instanceof ApiFailure && (error.status >= 500 || error.status === 429);
}
