import type { Readable } from "node:stream";

/** Parses a stream of JSON values, one per line. */
export async function* jsonValues<T>(stream: Readable): AsyncGenerator<T> {
  let rest = "";
  stream.setEncoding("utf8");
  for await (const text of stream) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") yield JSON.parse(line) as T;
  }
  if (rest.trim() !== "") yield JSON.parse(rest) as T;
}

/** A piece of a container's output. */
export interface Frame {
  stream: "stdout" | "stderr";
  bytes: Buffer;
}

/**
 * Splits the output of a container without a terminal into frames of 8 bytes (stream, three zeros, length) and that many
 * bytes of output. The engine sends one frame per line, or per 16 KiB of a longer line.
 */
export class FrameSplitter {
  #rest: Buffer = Buffer.alloc(0);

  split(chunk: Buffer): Frame[] {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Frame[] = [];
    while (bytes.length >= 8 && bytes.length >= 8 + bytes.readUInt32BE(4)) {
      const end = 8 + bytes.readUInt32BE(4);
      frames.push({ stream: bytes[0] === 2 ? "stderr" : "stdout", bytes: bytes.subarray(8, end) });
      bytes = bytes.subarray(end);
    }
    this.#rest = bytes;
    return frames;
  }
}
