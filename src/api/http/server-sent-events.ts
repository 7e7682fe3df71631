import type { FastifyRequest } from "fastify";

/** The caller can read server-sent events, and asks for them. */
export const wantsStream = (request: FastifyRequest) =>
  request.method === "GET" && /\btext\/event-stream\b/i.test(request.headers.accept ?? "");

export const streamHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store, no-transform",
  // Else nginx collects what it should pass on.
  "x-accel-buffering": "no",
};
