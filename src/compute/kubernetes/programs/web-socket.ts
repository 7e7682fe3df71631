import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";

const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** The API server sends what a program writes in pieces of at most 32 KiB. */
const payloadBytesMax = 4 * 1024 * 1024;

/**
 * The client's end of a WebSocket to the API server (RFC 6455). The first byte of each message names a channel. It has no compression,
 * and hands the parts of a message out as they come.
 */
export class ChannelSocket {
  readonly socket: Socket;
  readonly #onData: (channel: number, bytes: Buffer) => void;
  #rest: Buffer = Buffer.alloc(0);
  #channel = 0;

  constructor(socket: Socket, onData: (channel: number, bytes: Buffer) => void) {
    this.socket = socket;
    this.#onData = onData;
    for (const event of ["error", "end"]) socket.on(event, () => socket.destroy());
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
  }

  /** @returns false when the connection is full, as a stream's `write` */
  send(channel: number, bytes: Uint8Array | string): boolean {
    if (!this.socket.writable) return true;
    return this.socket.write(frameOf(opcodes.binary, Buffer.concat([Buffer.from([channel]), Buffer.from(bytes)])));
  }

  close(): void {
    if (this.socket.writable) this.socket.end(frameOf(opcodes.close, Buffer.from([0x03, 0xe8])));
    this.socket.destroySoon();
  }

  #receive(chunk: Buffer): void {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const frame = readFrame(bytes);
      if (frame === null) break;
      if (frame === "too long") return void this.socket.destroy();
      try {
        this.#take(frame.opcode, frame.payload);
      } catch {
        return void this.socket.destroy(); // what the cluster sent is wrong
      }
      bytes = bytes.subarray(frame.bytes);
    }
    this.#rest = bytes;
  }

  #take(opcode: number, payload: Buffer): void {
    if (opcode === opcodes.close) return void this.close();
    if (opcode === opcodes.ping && this.socket.writable) this.socket.write(frameOf(opcodes.pong, payload));
    const isFirst = opcode === opcodes.binary || opcode === opcodes.text;
    if (!isFirst && opcode !== opcodes.continuation) return;
    if (isFirst) this.#channel = payload[0] ?? 0;
    this.#onData(this.#channel, isFirst ? payload.subarray(1) : payload);
  }
}

/** Encodes a message of one frame. A client masks what it sends. */
function frameOf(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const extended = length < 126 ? 0 : length < 65_536 ? 2 : 8;
  const head = Buffer.alloc(2 + extended);
  head[0] = 0x80 | opcode;
  head[1] = 0x80 | (extended === 0 ? length : extended === 2 ? 126 : 127);
  if (extended === 2) head.writeUInt16BE(length, 2);
  if (extended === 8) head.writeBigUInt64BE(BigInt(length), 2);
  const mask = randomBytes(4);
  const masked = Buffer.from(payload);
  for (let at = 0; at < length; at += 1) masked[at] = (masked[at] as number) ^ (mask[at & 3] as number);
  return Buffer.concat([head, mask, masked]);
}

/** Reads a frame of the server, which is not masked. @returns null when it has not arrived whole */
function readFrame(bytes: Buffer): { opcode: number; payload: Buffer; bytes: number } | "too long" | null {
  if (bytes.length < 2) return null;
  const short = (bytes[1] as number) & 0x7f;
  const extended = short < 126 ? 0 : short === 126 ? 2 : 8;
  const start = 2 + extended;
  if (bytes.length < start) return null;
  const length = extended === 0 ? short : extended === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  if (length > payloadBytesMax) return "too long";
  if (bytes.length < start + length) return null;
  return { opcode: (bytes[0] as number) & 0x0f, payload: bytes.subarray(start, start + length), bytes: start + length };
}
