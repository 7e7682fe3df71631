import { type ServerResponse, STATUS_CODES } from "node:http";
import type { FailureKind } from "./counts.ts";
import type { RawHeaders } from "./headers.ts";

/** An answer from the gateway itself. */
export interface Refusal {
  status: number;
  detail: string;
  /** The failure kind to count. Null: the request belongs to no deployment. */
  kind: FailureKind | null;
  retryAfterS?: number;
}

/** Seconds after which a client may retry: about one start of an agent server. */
const retryAfterS = 5;

const unavailable = (detail: string): Refusal => ({ status: 503, detail, kind: "unavailable", retryAfterS });
const revision = (revisionId: string | null) => (revisionId === null ? "The agent server" : `Revision ${revisionId}`);
const seconds = (ms: number) => `${Math.ceil(ms / 1_000)} s`;

/** All answers of the gateway itself. */
export const refusals = {
  /** Also used for `/internal`, so that a probe learns nothing. */
  unknown: (): Refusal => ({ status: 404, detail: "No deployment answers at this address.", kind: null }),
  elsewhere: (): Refusal => ({
    status: 409,
    detail: "A listener on another machine runs this deployment, so this server cannot call it. Call its own address.",
    kind: null,
  }),
  /** Only background calls of the console get it. */
  asleep: (): Refusal => ({
    status: 409,
    detail: "The deployment sleeps, and this call does not wake it.",
    kind: null,
  }),
  closed: (because: string | null) => unavailable(because ?? "This deployment does not accept requests at the moment."),
  waitedTooLong: (waitMs: number) => unavailable(`The deployment was not ready to answer within ${seconds(waitMs)}.`),
  queueFull: (waitingMax: number) =>
    unavailable(`The deployment is not ready and ${waitingMax} requests are already waiting for it.`),
  busy: (callsMax: number) => unavailable(`The gateway holds ${callsMax} requests, which is its limit.`),
  shareExceeded: (max: number): Refusal => ({
    status: 429,
    detail: `The workspace of this deployment holds its share of the gateway's requests, which is ${max} at the moment.`,
    kind: "unavailable",
    retryAfterS,
  }),
  noReplica: (revisionId: string | null) =>
    unavailable(`${revision(revisionId)} has no replica that accepts requests.`),
  stopping: () => unavailable("The gateway is shutting down."),
  unreachable: (revisionId: string | null, reason: string): Refusal => ({
    status: 502,
    detail: `${revision(revisionId)} did not answer: ${reason}.`,
    kind: "unreachable",
  }),
  connectOverdue: (revisionId: string | null, connectTimeoutMs: number): Refusal => ({
    status: 504,
    detail: `${revision(revisionId)} did not accept a connection within ${seconds(connectTimeoutMs)}.`,
    kind: "overdue",
  }),
  overdue: (revisionId: string | null, durationMs: number): Refusal => ({
    status: 504,
    detail: `${revision(revisionId)} did not answer within ${seconds(durationMs)}, the time limit of a request.`,
    kind: "overdue",
  }),
  oversize: (bodyBytesMax: number): Refusal => ({
    status: 413,
    detail: `The request body is larger than ${bodyBytesMax} bytes.`,
    kind: "oversize",
  }),
  /** The same answer as the control plane's. */
  notAdmitted: (status: number, detail: string): Refusal => ({
    status,
    detail,
    kind: status === 503 ? "unavailable" : "refused",
    ...(status === 503 && { retryAfterS }),
  }),
  badRequest: (detail: string): Refusal => ({ status: 400, detail, kind: "refused" }),
  unsupportedCoding: (): Refusal => ({
    status: 501,
    detail: "The only supported Transfer-Encoding is chunked.",
    kind: "refused",
  }),
};

/** Writes a refusal as `{"detail": ...}`, the form of all errors of the public API. */
export function answerRefusal(response: ServerResponse, refusal: Refusal, headers: RawHeaders): void {
  // The end of a malformed request is uncertain, so no later bytes on this connection may be read as a request.
  if (refusal.kind === "refused") response.shouldKeepAlive = false;
  const body = JSON.stringify({ detail: refusal.detail });
  const own = ["content-type", "application/json", "content-length", `${Buffer.byteLength(body)}`];
  if (refusal.retryAfterS !== undefined) own.push("retry-after", `${refusal.retryAfterS}`);
  // Set explicitly, because a status message that Node has rejected before would stay on the response.
  response.writeHead(refusal.status, STATUS_CODES[refusal.status], [...headers, ...own, "cache-control", "no-store"]);
  response.end(body);
}
