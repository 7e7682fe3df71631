import type { FastifyRequest } from "fastify";
import { errors } from "../../contract/error.ts";
import { epochHeader } from "../../contract/listeners/assignment.ts";

/** Returns the session of a call. A call without a readable epoch is as stale as one with an old epoch. */
export function sessionOf(
  principal: { listenerId: string },
  request: FastifyRequest,
): { listenerId: string; epoch: number } {
  const epoch = Number(request.headers[epochHeader]);
  if (!Number.isSafeInteger(epoch)) throw errors.staleEpoch();
  return { listenerId: principal.listenerId, epoch };
}
