import { hash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { errors } from "../../contract/error.ts";

/** A strong ETag: a digest of the answer, so it differs as soon as anything in the answer does (RFC 9110 8.8.3). */
export function etagOf(text: string): string {
  return `"${hash("sha1", text, "base64url")}"`;
}

/** Whether the client has this answer already (`If-None-Match`, RFC 9110 13.1.2; proxies may have weakened the tag). */
export function hasAnswer(request: FastifyRequest, etag: string): boolean {
  const header = request.headers["if-none-match"];
  return header !== undefined && tagsOf(header).some((tag) => tag === "*" || tag.replace(/^W\//, "") === etag);
}

/**
 * Holds a change back that was made for another state. Call it with the row locked that is changed.
 * @param readAnswer makes what a GET would answer to this client now.
 * @throws ApiError 412 `changedMeanwhile` when the request has an `If-Match` without this answer's ETag.
 */
export function refuseIfChanged(request: FastifyRequest, readAnswer: () => unknown): void {
  const header = request.headers["if-match"];
  if (header === undefined || header.trim() === "*") return;
  const etag = etagOf(JSON.stringify(readAnswer()));
  if (!tagsOf(header).includes(etag)) throw errors.changedMeanwhile();
}

const tagsOf = (header: string) => header.split(",").map((tag) => tag.trim());
