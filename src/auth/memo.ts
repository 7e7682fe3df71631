import { currentUnit } from "../store/engine/atomic-unit.ts";

interface Entry<T> {
  row: Promise<T | undefined>;
  until: number;
}

/**
 * Caches rows by key for a short time. Concurrent readers of a key share one read. Missing rows are not cached, so a new row
 * is found at once and guessed keys use no memory.
 */
export class Memo<T> {
  readonly #entries = new Map<string, Entry<T>>();
  readonly #options: { memoryMs: number; rowsMax: number; read: (key: string) => Promise<T | undefined> };

  constructor(options: { memoryMs: number; rowsMax: number; read: (key: string) => Promise<T | undefined> }) {
    this.#options = options;
  }

  find(key: string): Promise<T | undefined> {
    // A transaction holds a connection, the only one of the embedded database, and a shared read may be waiting for it.
    if (currentUnit() !== undefined) return this.#options.read(key);
    const known = this.#entries.get(key);
    if (known !== undefined && known.until > performance.now()) return known.row;
    const entry = { row: this.#options.read(key), until: performance.now() + this.#options.memoryMs };
    this.#store(key, entry);
    const forget = () => {
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
    };
    entry.row.then((row) => row === undefined && forget(), forget);
    return entry.row;
  }

  /** Clears the cache. */
  forget(): void {
    this.#entries.clear();
  }

  #store(key: string, entry: Entry<T>): void {
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    if (this.#entries.size <= this.#options.rowsMax) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
}
