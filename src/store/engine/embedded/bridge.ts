import { Duplex } from "node:stream";

/** Sends bytes to the database and resolves with its answer. */
export type Exchange = (bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>;

const terminate = "X".charCodeAt(0);

/**
 * The socket that `pg` uses: the engine answers the bytes written here. pg corks the messages of one statement, so they
 * arrive together and cross to the worker once.
 */
export class Bridge extends Duplex {
  readonly #open: () => Promise<Exchange>;
  #exchange: Exchange | undefined;

  constructor(open: () => Promise<Exchange>) {
    super();
    this.#open = open;
  }

  /** Called by pg, once, instead of a TCP connect. */
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
    // Answers are pushed as they arrive: pg never pauses reading, and there is one answer at a time.
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
    // A terminate message ends this connection only: the engine keeps running for the next one.
    const isTerminate = chunks[0]?.[0] === terminate;
    const exchange = this.#exchange ?? unconnected;
    const answered = isTerminate ? Promise.resolve(nothing) : exchange(concatenated(chunks));
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

/** Copies the chunks into a buffer of their own, because it is transferred to the worker thread: pg's buffers share memory. */
function concatenated(chunks: Buffer[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}
