/** A number that was skipped. */
interface Gap {
  sinceMs: number;
  /** Transactions that were open when the gap was first seen, one of which may have taken the number; null: not queried yet. */
  suspects: ReadonlySet<string> | null;
  /** None of them is open any more: the next poll finds the row, or it does not exist. */
  isOver: boolean;
}

/** A row that is missing for longer than any transaction may last is skipped. */
export const gapTimeoutMs = 60_000;

/** Missing numbers that are searched at once. After a crash PostgreSQL skips 32; a larger gap was not assigned by any server. */
const gapsMax = 5_000;

/**
 * Puts rows in the order of their numbers. Numbers are assigned before the commit, so a smaller number may appear after a
 * greater one. Rows above a missing number are held until it appears, or until its transaction has ended without it. A
 * reader that has received a row has therefore received all rows before it, and can resume from its number.
 *
 * Call in turns: `add` the rows of a poll, `note` the transactions that are open after that poll, then poll again.
 */
export class EventOrder<Row extends { id: number }> {
  #position: number;
  #highest: number;
  #held: Row[] = [];
  readonly #gaps = new Map<number, Gap>();

  /** @param position every number up to this one is settled. */
  constructor(position: number) {
    this.#position = position;
    this.#highest = position;
  }

  /** Every event up to this number was delivered, or will never exist. */
  get position(): number {
    return this.#position;
  }

  /** The greatest number seen. A poll asks for the numbers above it and for `gaps`. */
  get highest(): number {
    return this.#highest;
  }

  get gaps(): number[] {
    return [...this.#gaps.keys()];
  }

  get heldCount(): number {
    return this.#held.length;
  }

  /**
   * Takes the rows of one poll, in any order.
   * @returns the rows that can be delivered now.
   */
  add(rows: readonly Row[], nowMs: number): Row[] {
    for (const row of rows.toSorted((a, b) => a.id - b.id)) {
      if (row.id > this.#highest) this.#jumpTo(row.id, nowMs);
      else if (!this.#gaps.delete(row.id)) continue;
      this.#held.push(row);
    }
    for (const [number, gap] of this.#gaps) {
      if (gap.isOver || nowMs - gap.sinceMs > gapTimeoutMs) this.#gaps.delete(number);
    }
    return this.#release();
  }

  /** Takes the names of the transactions that are open now; names are never reused. */
  setOpenTransactions(open: ReadonlySet<string>): void {
    for (const gap of this.#gaps.values()) {
      gap.suspects ??= open;
      gap.isOver = ![...gap.suspects].some((name) => open.has(name));
    }
  }

  #jumpTo(id: number, nowMs: number): void {
    for (let missing = Math.max(this.#highest + 1, id - gapsMax); missing < id; missing += 1) {
      this.#gaps.set(missing, { sinceMs: nowMs, suspects: null, isOver: false });
    }
    this.#highest = id;
  }

  #release(): Row[] {
    // Gaps are recorded in ascending order.
    const first = this.#gaps.keys().next();
    const end = first.done === true ? this.#highest + 1 : first.value;
    this.#position = end - 1;
    if (this.#held.length === 0) return [];
    this.#held.sort((a, b) => a.id - b.id);
    const count = this.#held.findIndex(({ id }) => id >= end);
    return this.#held.splice(0, count < 0 ? this.#held.length : count);
  }
}
