import { connect, type LookupFunction, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";

/** What the parser of an answer gets at once: little at first, because 64 KiB of chunks of one byte occupy it for 40 ms. */
const firstBytes = 1_024;
const mostBytes = 16_384;

/** Bytes that wait for their turn. Then the connection is not read for a while. */
const waitingMax = 65_536;

export interface ConnectionTarget {
  host: string;
  port: number;
  lookup: LookupFunction;
  /** Name of the server for TLS; null: plain. An IP address has none. */
  tls: { servername: string } | null;
}

/** Opens a connection whose bytes arrive in slices, with time for others between two of them. */
export function openSliced({ tls, ...target }: ConnectionTarget): Duplex {
  return new SlicedConnection(
    tls === null ? connect(target) : connectTls({ ...target, ...tls, ALPNProtocols: ["http/1.1"] }),
  );
}

class SlicedConnection extends Duplex {
  readonly #inner: Socket;
  readonly #arrived: Buffer[] = [];
  #arrivedBytes = 0;
  #sliceBytes = firstBytes;
  #isWanted = false;
  /** What happens after everything that arrived was given on. */
  #end: (() => void) | undefined;
  #turn: NodeJS.Immediate | undefined;

  constructor(inner: Socket) {
    super();
    this.#inner = inner;
    inner.on("data", (chunk: Buffer) => {
      this.#arrived.push(chunk);
      this.#arrivedBytes += chunk.length;
      if (this.#arrivedBytes > waitingMax) inner.pause();
      this.#giveSoon();
    });
    inner.once("end", () => this.#endWith(() => this.push(null)));
    inner.once("error", (error) => this.#endWith(() => this.destroy(error)));
    inner.once("close", () => this.#endWith(() => this.destroy()));
  }

  override _read(): void {
    this.#isWanted = true;
    this.#giveSoon();
  }

  /** A server may answer, and close, before it has read everything. So a failed write is no failure while there is an answer to read. */
  override _write(chunk: Buffer, encoding: BufferEncoding, done: () => void): void {
    this.#inner.write(chunk, encoding, () => done());
  }

  override _final(done: () => void): void {
    this.#inner.end(() => done());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearImmediate(this.#turn);
    this.#inner.destroy();
    done(error);
  }

  #endWith(end: () => void): void {
    this.#end ??= end;
    this.#giveSoon();
  }

  #giveSoon(): void {
    if (!this.#isWanted || this.#turn !== undefined || this.destroyed) return;
    this.#turn = setImmediate(() => {
      this.#turn = undefined;
      this.#give();
    });
  }

  #give(): void {
    const first = this.#arrived.shift();
    if (first === undefined) {
      this.#end?.();
      return;
    }
    const slice = first.subarray(0, this.#sliceBytes);
    if (slice.length < first.length) this.#arrived.unshift(first.subarray(slice.length));
    this.#arrivedBytes -= slice.length;
    if (this.#arrivedBytes <= waitingMax) this.#inner.resume();
    this.#sliceBytes = Math.min(mostBytes, 2 * this.#sliceBytes);
    this.#isWanted = false;
    this.push(slice);
  }
}
