import type { ErrorCode, ValidationItem } from "../contract/error.ts";
import type { Revision } from "../contract/revisions/revision.ts";

/** Error response of the server. `message` is meant for people. */
export class ApiFailure extends Error {
  override readonly name = "ApiFailure";
  /** HTTP status, 400 to 599. */
  readonly status: number;
  /** Code of the error (docs/reference/errors.md). null: another server or a proxy answered, or it is a bug in Pierhead. */
  readonly code: ErrorCode | null;
  /** The error as one text. A validation error (422) becomes `field: problem; field: problem`. */
  readonly detail: string;
  /** The individual problems of a 422, otherwise null. */
  readonly items: readonly ValidationItem[] | null;
  /** Id under which the server logged the request. null: the response had none. */
  readonly requestId: string | null;
  /** The call without its query: `GET /v2/deployments`. */
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

/** Reports whether an error is one of these errors of the API: `isRefusal(error, "nameTaken")`. */
export function isRefusal<C extends ErrorCode>(error: unknown, ...codes: C[]): error is ApiFailure & { code: C } {
  return error instanceof ApiFailure && codes.some((code) => code === error.code);
}

/** The server did not answer: refused, reset, not resolved, or past the deadline. `cause` is the last error of the transport. */
export class ServerUnreachable extends Error {
  override readonly name = "ServerUnreachable";
  readonly url: string;

  constructor(url: string, because: string, options?: ErrorOptions) {
    super(`No answer from ${url}: ${because}`, options);
    this.url = url;
  }
}

/** The wait timed out. What it waited for continues and may still happen. */
export class WaitTimeout extends Error {
  override readonly name = "WaitTimeout";
  /** The last known state, when the wait was for a revision. */
  readonly revision: Revision | null;

  constructor(message: string, revision: Revision | null = null) {
    super(message);
    this.revision = revision;
  }
}

/** Reports whether a later retry may succeed, because the server is unreachable, busy, or failed on this one call. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ServerUnreachable) return true;
  return error instanceof ApiFailure && (error.status >= 500 || error.status === 429);
}
