import type { OutgoingHttpHeaders } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import { drained } from "../../base/drained.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";

/** JSON that is made and sent in pieces, because the whole text takes too much memory. */
export class JsonStream {
  readonly pieces: AsyncGenerator<string, void>;

  constructor(pieces: AsyncGenerator<string, void>) {
    this.pieces = pieces;
  }
}

/** Sends each piece when the client has read the one before. @throws the error of the first piece: nothing is sent by then */
export async function sendJsonStream(
  { request, reply, logger }: { request: FastifyRequest; reply: FastifyReply; logger: Logger },
  { pieces }: JsonStream,
): Promise<FastifyReply> {
  let piece = await pieces.next();
  const { raw } = reply.type("application/json; charset=utf-8").hijack();
  raw.writeHead(reply.statusCode, reply.getHeaders() as OutgoingHttpHeaders);
  if (request.method === "HEAD") {
    await pieces.return();
    raw.end();
    return reply;
  }
  try {
    while (piece.done !== true && !raw.destroyed) {
      if (!raw.write(piece.value)) await drained(raw);
      piece = await pieces.next();
    }
    raw.end();
  } catch (error) {
    // Closing the connection is the only way left to report the failure.
    logger.error({ request_id: request.id, error: describeError(error) }, "answer aborted");
    raw.destroy();
  }
  return reply;
}
