import { type ServerResponse, STATUS_CODES } from "node:http";
import type { FailureKind } from "./counts.ts";
import type { RawHeaders } from "./headers.ts";

/** An answer the gateway gives itself. */
export interface Refusal {
  status: number;
  detail: string;
  /** How it is counted; null: it belongs to no deployment. */
  kind: FailureKind | null;
  retryAfterS?: number;
}

/** Seconds after which a client may well try again: about one start of an agent server. */
const retryAfterS = 5;

const unavailable = (detail: string): Refusal => ({ status: 503, detail, kind: "unavailable", retryAfterS });
const revision = (revisionId: string | null) => (revisionId === null ? "The agent server" : `Revision ${revisionId}`);
const seconds = (ms: number) => `${Math.ceil(ms / 1_000)} s`;

/** Every answer of the gateway's own. */
export const refusals = {
  /** Also for `/internal`: whoever probes learns nothing. */
  unknown: (): Refusal => ({ status: 404, detail: "No deployment answers at this address.", kind: null }),
  closed: (because: string | null) => unavailable(because ?? "This deployment takes no requests at the moment."),
  waitedTooLong: (waitMs: number) => unavailable(`The deployment was not ready to answer within ${seconds(waitMs)}.`),
  queueFull: (waitingMax: number) =>
    unavailable(`The deployment is not ready and ${waitingMax} requests are already waiting for it.`),
  noReplica: (revisionId: string | null) => unavailable(`${revision(revisionId)} has no replica that takes requests.`),
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
    detail: `${revision(revisionId)} did not answer within ${seconds(durationMs)}, the longest a request may take.`,
    kind: "overdue",
  }),
  oversize: (bodyBytesMax: number): Refusal => ({
    status: 413,
    detail: `The request body is larger than ${bodyBytesMax} bytes.`,
    kind: "oversize",
  }),
  /** As the control plane itself answers such a key. */
  notAdmitted: (status: number, detail: string): Refusal => ({
    status,
    detail,
    kind: status === 503 ? "unavailable" : "refused",
    ...(status === 503 && { retryAfterS }),
  }),
  badRequest: (detail: string): Refusal => ({ status: 400, detail, kind: "refused" }),
  unsupportedCoding: (): Refusal => ({
    status: 501,
    detail: "Transfer-Encoding may only be chunked.",
    kind: "refused",
  }),
};

/** Writes a refusal as `{"detail": ...}`, the form of all errors of the public API. */
export function answerRefusal(response: ServerResponse, refusal: Refusal, headers: RawHeaders): void {
  // Where such a request ends is uncertain: nothing after it on this connection may be taken for a request.
  if (refusal.kind === "refused") response.shouldKeepAlive = false;
  const body = JSON.stringify({ detail: refusal.detail });
  const own = ["content-type", "application/json", "content-length", `${Buffer.byteLength(body)}`];
  if (refusal.retryAfterS !== undefined) own.push("retry-after", `${refusal.retryAfterS}`);
  // Named, because a status message that was refused before would stick to the response.
  response.writeHead(refusal.status, STATUS_CODES[refusal.status], [...headers, ...own, "cache-control", "no-store"]);
  response.end(body);
}
