import { hash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { errors } from "../../contract/error.ts";

/** Returns a strong ETag: a digest of the response, so that any change of the response changes it (RFC 9110 8.8.3). */
export function etagOf(text: string): string {
  return `"${hash("sha1", text, "base64url")}"`;
}

/** Returns whether `If-None-Match` names this ETag (RFC 9110 13.1.2). Proxies may have weakened the tag. */
export function hasAnswer(request: FastifyRequest, etag: string): boolean {
  const header = request.headers["if-none-match"];
  return header !== undefined && tagsOf(header).some((tag) => tag === "*" || tag.replace(/^W\//, "") === etag);
}

/**
 * Rejects a change that was made for an older state. Call it while the row that changes is locked.
 * @param readAnswer Returns what a GET would answer to this client now.
 * @throws ApiError 412 `changedMeanwhile` when the request has an `If-Match` that does not name the current ETag.
 */
export function refuseIfChanged(request: FastifyRequest, readAnswer: () => unknown): void {
  const header = request.headers["if-match"];
  if (header === undefined || header.trim() === "*") return;
  const etag = etagOf(JSON.stringify(readAnswer()));
  if (!tagsOf(header).includes(etag)) throw errors.changedMeanwhile();
}

const tagsOf = (header: string) => header.split(",").map((tag) => tag.trim());
