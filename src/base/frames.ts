import type { Socket } from "node:net";

/** One message of a stream of bytes that carries several channels. */
export interface Frame {
  channel: number;
  payload: Buffer;
}

const headBytes = 5;

/** Encodes a frame: one byte with the channel, four with the length, then the payload. */
export function encodeFrame(channel: number, payload: Uint8Array | string): Buffer {
  const bytes = typeof payload === "string" ? Buffer.from(payload) : payload;
  const frame = Buffer.allocUnsafe(headBytes + bytes.length);
  frame.writeUInt8(channel, 0);
  frame.writeUInt32BE(bytes.length, 1);
  frame.set(bytes, headBytes);
  return frame;
}

/** Splits the chunks of a stream into frames. */
export class FrameReader {
  readonly #bytesMax: number;
  #rest: Buffer = Buffer.alloc(0);

  /** @param bytesMax maximum length of a payload */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** @throws Error for a frame that is longer than the maximum */
  read(chunk: Buffer): Frame[] {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Frame[] = [];
    while (bytes.length >= headBytes) {
      const length = bytes.readUInt32BE(1);
      if (length > this.#bytesMax) throw new Error(`a frame of ${length} bytes exceeds ${this.#bytesMax}`);
      if (bytes.length < headBytes + length) break;
      frames.push({ channel: bytes.readUInt8(0), payload: bytes.subarray(headBytes, headBytes + length) });
      bytes = bytes.subarray(headBytes + length);
    }
    this.#rest = bytes;
    return frames;
  }
}

/**
 * Reads the first frame of a connection and pauses it. Later bytes stay in it.
 * @returns null when the connection ends, the frame is too long, or the time is over
 */
export function readFirstFrame(
  socket: Socket,
  { bytesMax, timeoutMs }: { bytesMax: number; timeoutMs: number },
): Promise<Frame | null> {
  const { promise, resolve } = Promise.withResolvers<Frame | null>();
  let bytes: Buffer = Buffer.alloc(0);
  const settle = (frame: Frame | null) => {
    clearTimeout(timer);
    socket.pause();
    socket.off("data", receive).off("close", end).off("end", end);
    resolve(frame);
  };
  const end = () => settle(null);
  const receive = (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    if (bytes.length < headBytes) return;
    const length = bytes.readUInt32BE(1);
    if (length > bytesMax) return settle(null);
    if (bytes.length < headBytes + length) return;
    settle({ channel: bytes.readUInt8(0), payload: bytes.subarray(headBytes, headBytes + length) });
    const rest = bytes.subarray(headBytes + length);
    if (rest.length > 0) socket.unshift(rest);
  };
  const timer = setTimeout(end, timeoutMs);
  socket.on("data", receive).once("close", end).once("end", end);
  socket.resume();
  if (socket.destroyed) end();
  return promise;
}
