import type { IncomingMessage } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import { ownerOf } from "../../auth/principal.ts";
import { type BodyLimits, bodyDepthMax } from "../../contract/body-limits.ts";
import { ApiError, errors } from "../../contract/error.ts";
import type { Operation } from "../../contract/operation.ts";
import { bodyTimeoutMs } from "../../domain/limits.ts";
import { hasBody } from "../../gateway/forward.ts";
import type { BodyMemory, BodySender } from "./body-memory.ts";
import { JsonBounds } from "./json-bounds.ts";
import type { RequestLimits } from "./rate-limit.ts";

/** Returns who sends the body of a request. */
export function bodySenderOf(request: FastifyRequest, limits: RequestLimits): BodySender {
  const { principal } = request;
  if (principal === null) return { name: limits.addressOf(request), isAnonymous: true, ownerId: null };
  return { name: principal.keyId, isAnonymous: false, ownerId: ownerOf(principal) };
}

/** Returns the name under which refused bodies count. Those of one address count separately for each operation without a key, so that one client does not stop another. */
export const refusalsOf = ({ name, isAnonymous }: BodySender, { id }: Operation) =>
  isAnonymous ? `${id} ${name}` : name;

/**
 * Reads the body of a request, no further than the limits of its operation allow. Call it after authentication. The rest
 * of a refused body is left to the HTTP server, which discards it after the response or closes the connection.
 * @throws ApiError 413 `bodyTooLarge`, `bodyTooManyValues`; 400 `bodyTooDeep` or when the sender breaks off; 408 when the
 *   body does not arrive in time; 429 when this sender's bodies were refused too often, or use its share of the memory;
 *   503 when the bodies of all senders use all of it.
 */
export async function readBody(
  { request, reply, operation }: { request: FastifyRequest; reply: FastifyReply; operation: Operation },
  { memory, limits }: { memory: BodyMemory; limits: RequestLimits },
): Promise<Buffer> {
  const { raw } = request;
  if (!hasBody(raw)) return Buffer.alloc(0);
  const sender = bodySenderOf(request, limits);
  const refusals = refusalsOf(sender, operation);
  if (limits.bodyWaitS(refusals) > 0) await limits.refuseBody(refusals);
  if (raw.destroyed || reply.raw.destroyed) throw endedEarly();
  let taken = 0;
  reply.raw.once("close", () => memory.give(sender, taken));
  const take = (bytes: number) => {
    memory.take(sender, bytes);
    taken += bytes;
  };
  try {
    return await receive(raw, operation, { take, pauseMs: (bytes) => memory.pauseMs(sender, bytes) });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (!isOverload(error)) limits.countRefusedBody(refusals);
    else if (sender.isAnonymous) {
      memory.give(sender, taken);
      taken = 0;
      await limits.pauseBodies();
    }
    throw error;
  }
}

/** A refusal for lack of memory says nothing about this body. */
const isOverload = ({ status }: ApiError) => status === 429 || status === 503;

/** Bodies that are larger arrive at the pace of their workspace. */
const unpacedBytes = 65_536;

interface Receiving {
  take: Take;
  /** Counts bytes. Returns for how long to read no further. */
  pauseMs(bytes: number): number;
}

function receive(raw: IncomingMessage, { bodyLimits }: Operation, { take, pauseMs }: Receiving): Promise<Buffer> {
  const { bytesMax } = bodyLimits;
  const announced = Number(raw.headers["content-length"] ?? 0);
  if (announced > bytesMax) return Promise.reject(errors.bodyTooLarge(bytesMax));
  const arrived = new GrowingBuffer(announced, bodyLimits, take);
  const bounds = new JsonBounds({ ...bodyLimits, depthMax: bodyDepthMax });
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  let resuming: NodeJS.Timeout | undefined;
  const end = () => {
    clearTimeout(timer);
    clearTimeout(resuming);
    raw.off("data", read).off("end", finish).off("error", breakOff).off("close", breakOff);
  };
  const refuse = (error: unknown) => {
    end();
    raw.pause();
    reject(error);
  };
  const read = (chunk: Buffer) => {
    try {
      arrived.add(chunk);
      bounds.scan(chunk);
    } catch (error) {
      return refuse(error);
    }
    const aheadMs = arrived.length > unpacedBytes ? pauseMs(chunk.length) : 0;
    if (aheadMs === 0) return;
    raw.pause();
    resuming = setTimeout(() => raw.resume(), aheadMs).unref();
  };
  const finish = () => {
    end();
    resolve(arrived.bytes);
  };
  const breakOff = () => refuse(endedEarly());
  const timer = setTimeout(() => refuse(errors.bodyTooSlow(bodyTimeoutMs / 1_000)), bodyTimeoutMs).unref();
  raw.on("data", read).once("end", finish).once("error", breakOff).once("close", breakOff);
  return promise;
}

const endedEarly = () => new ApiError("transport", 400, "The request ended early.");

/** Takes memory. @throws ApiError when there is none. */
type Take = (bytes: number) => void;

const firstBytes = 4_096;

/**
 * Bytes that arrived, in one buffer that grows with them. Keeping the chunks instead would cost a hundred bytes for each
 * byte of a sender that sends single bytes. Memory is not taken for what a sender only announces.
 */
class GrowingBuffer {
  readonly #bytesMax: number;
  readonly #take: Take;
  readonly #announced: number;
  #buffer = Buffer.alloc(0);
  #length = 0;

  constructor(announced: number, { bytesMax }: BodyLimits, take: Take) {
    this.#bytesMax = bytesMax;
    this.#announced = announced;
    this.#take = take;
  }

  get length(): number {
    return this.#length;
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** @throws ApiError 413 `bodyTooLarge`, and what `take` throws. */
  add(chunk: Buffer): void {
    const length = this.#length + chunk.length;
    if (length > this.#bytesMax) throw errors.bodyTooLarge(this.#bytesMax);
    if (length > this.#buffer.length) this.#grow(length);
    chunk.copy(this.#buffer, this.#length);
    this.#length = length;
  }

  #grow(needed: number): void {
    const doubled = Math.max(needed, 2 * this.#buffer.length, firstBytes);
    const bytes = Math.max(needed, Math.min(doubled, this.#announced || this.#bytesMax));
    this.#take(bytes - this.#buffer.length);
    const grown = Buffer.allocUnsafeSlow(bytes);
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }
}
