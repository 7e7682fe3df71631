import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { gzip as gzipNow } from "node:zlib";
import type { FastifyRequest } from "fastify";

/** Content that is the same for all callers, in the forms in which it is sent. */
export interface StaticFile {
  type: string;
  bytes: Buffer;
  /** null: the bytes are compressed already. */
  gzipped: Buffer | null;
  etag: string;
}

const gzip = promisify(gzipNow);

export async function staticFile(bytes: Buffer, type: string, { isCompressed = false } = {}): Promise<StaticFile> {
  const digest = createHash("sha256").update(bytes).digest("base64url").slice(0, 22);
  return { type, bytes, gzipped: isCompressed ? null : await gzip(bytes), etag: `"${digest}"` };
}

/**
 * Returns the answer to a request for a file; a client that has the file gets no bytes. It copies nothing, because anonymous callers may
 * ask for files without end.
 */
export function answerWith(
  { headers }: FastifyRequest,
  { type, bytes, gzipped, etag }: StaticFile,
): { status: number; headers: Record<string, string>; bytes?: Buffer } {
  const common = { etag, vary: "accept-encoding, origin", "content-type": type };
  if (headers["if-none-match"] === etag) return { status: 304, headers: common };
  const isAccepted = /\bgzip\b/.test(String(headers["accept-encoding"] ?? ""));
  const sent = (chosen: Buffer, more: Record<string, string> = {}) => {
    const headers = { ...common, ...more, "content-length": String(chosen.length) };
    return { status: 200, headers, bytes: chosen };
  };
  return gzipped === null || !isAccepted ? sent(bytes) : sent(gzipped, { "content-encoding": "gzip" });
}
