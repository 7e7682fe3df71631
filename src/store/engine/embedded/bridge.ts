import { Duplex } from "node:stream";

/** Sends bytes to the database and resolves with its answer. */
export type Exchange = (bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>;

const terminate = "X".charCodeAt(0);

/**
 * What `pg` takes for its socket: bytes written here are answered by the engine. pg corks the messages of one statement,
 * so they arrive together and cross to the worker once.
 */
export class Bridge extends Duplex {
  readonly #open: () => Promise<Exchange>;
  #exchange: Exchange | undefined;

  constructor(open: () => Promise<Exchange>) {
    super();
    this.#open = open;
  }

  /** Called by pg, once, in place of a TCP connect. */
  connect(): this {
    this.#open().then(
      (exchange) => {
        this.#exchange = exchange;
        this.emit("connect");
      },
      (error: Error) => this.destroy(error),
    );
    return this;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#send([chunk], done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#send(
      chunks.map(({ chunk }) => chunk),
      done,
    );
  }

  override _final(done: (error?: Error | null) => void): void {
    this.push(null);
    done();
  }

  override _read(): void {
    // Answers are pushed as they come; pg reads without pause, and there is one at a time.
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  #send(chunks: Buffer[], done: (error?: Error | null) => void): void {
    // A goodbye ends this connection only: the engine goes on for the next one.
    const isGoodbye = chunks[0]?.[0] === terminate;
    const exchange = this.#exchange ?? unconnected;
    const answered = isGoodbye ? Promise.resolve(nothing) : exchange(joined(chunks));
    answered.then(
      (answer) => {
        if (answer.length > 0 && !this.destroyed) this.push(answer);
        done();
      },
      (error: Error) => done(error),
    );
  }
}

const nothing = new Uint8Array(0);
const unconnected: Exchange = () => Promise.reject(new Error("the embedded database is not connected"));

/** A copy with a buffer of its own, because it is moved to the worker thread: pg's buffers share theirs. */
function joined(chunks: Buffer[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}
