import { currentUnit } from "../store/engine/atomic-unit.ts";

interface Entry<T> {
  row: Promise<T | undefined>;
  until: number;
}

/**
 * Remembers for a moment what was read by a key; readers at the same time share one read. What is not there is not
 * remembered: it is there as soon as somebody makes it, and guessing keys fills no memory.
 */
export class Memo<T> {
  readonly #entries = new Map<string, Entry<T>>();
  readonly #options: { memoryMs: number; rowsMax: number; read: (key: string) => Promise<T | undefined> };

  constructor(options: { memoryMs: number; rowsMax: number; read: (key: string) => Promise<T | undefined> }) {
    this.#options = options;
  }

  find(key: string): Promise<T | undefined> {
    // A unit holds a connection, the only one of the embedded database, and what others began to read may wait for it.
    if (currentUnit() !== undefined) return this.#options.read(key);
    const known = this.#entries.get(key);
    if (known !== undefined && known.until > performance.now()) return known.row;
    const entry = { row: this.#options.read(key), until: performance.now() + this.#options.memoryMs };
    this.#keep(key, entry);
    const forget = () => {
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
    };
    entry.row.then((row) => row === undefined && forget(), forget);
    return entry.row;
  }

  /** What is asked for from now on is read again. */
  forget(): void {
    this.#entries.clear();
  }

  #keep(key: string, entry: Entry<T>): void {
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    if (this.#entries.size <= this.#options.rowsMax) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
}
