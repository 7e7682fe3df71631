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

interface Receiver {
  request: FastifyRequest;
  reply: FastifyReply;
  logger: Logger;
  /** Counts bytes that the client has not read, until the answer ends. */
  hold(unread: { bytes: number; isRefusable: boolean }): void;
}

/**
 * Sends each piece when the client has read the one before, so that at most the largest piece is unread.
 * @throws the error of the first piece, or the refusal to hold it: nothing is sent by then
 */
export async function sendJsonStream(
  { request, reply, logger, hold }: Receiver,
  { pieces }: JsonStream,
): Promise<FastifyReply> {
  let piece = await pieces.next();
  let heldBytes = 0;
  const holdMore = (text: string, isRefusable: boolean) => {
    const bytes = Buffer.byteLength(text);
    if (bytes <= heldBytes) return;
    // Twice as much, because each call adds listeners to the response.
    const moreBytes = Math.max(bytes, 2 * heldBytes) - heldBytes;
    hold({ bytes: moreBytes, isRefusable });
    heldBytes += moreBytes;
  };
  if (piece.done !== true) holdMore(piece.value, true);
  const { raw } = reply.type("application/json; charset=utf-8").hijack();
  raw.writeHead(reply.statusCode, reply.getHeaders() as OutgoingHttpHeaders);
  if (request.method === "HEAD") {
    await pieces.return();
    raw.end();
    return reply;
  }
  try {
    while (piece.done !== true && !raw.destroyed) {
      holdMore(piece.value, false);
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
