import type { FastifyRequest } from "fastify";

/** Returns whether the client asks for server-sent events. */
export const wantsStream = (request: FastifyRequest) =>
  request.method === "GET" && /\btext\/event-stream\b/i.test(request.headers.accept ?? "");

export const streamHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store, no-transform",
  // Without this, nginx buffers the stream.
  "x-accel-buffering": "no",
};
