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
