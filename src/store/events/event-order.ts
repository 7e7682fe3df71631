/** A number that was jumped over. */
interface Gap {
  sinceMs: number;
  /** Transactions that were open when it was seen first, one of which may have it; null: not asked yet. */
  suspects: ReadonlySet<string> | null;
  /** None of them is open any more: the next look finds its row, or there is none. */
  isOver: boolean;
}

/** A row that is missing for longer than any transaction of ours may last is not waited for. */
export const gapTimeoutMs = 60_000;

/** Numbers looked for at once. After a crash PostgreSQL jumps over 32; beyond this they were not given out by us. */
const gapsMax = 5_000;

/**
 * Puts rows in the order of their numbers, although numbers are given out before commits and a smaller one may appear
 * after a greater one: rows above a number that is missing are held until it appears, or its transaction has ended
 * without it. So who has got a row has got all before it, and its number is a place to go on from.
 *
 * Looks and questions take turns: `add` what was read, `note` which transactions are open after that read, read again.
 */
export class EventOrder<Row extends { id: number }> {
  #position: number;
  #highest: number;
  #held: Row[] = [];
  readonly #gaps = new Map<number, Gap>();

  /** @param position Everything up to this number is settled. */
  constructor(position: number) {
    this.#position = position;
    this.#highest = position;
  }

  /** Everything up to this number was given out, or will never be there. */
  get position(): number {
    return this.#position;
  }

  /** The greatest number seen; a look asks for those above it, and for `gaps`. */
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
   * Takes the rows of one look, in any order.
   * @returns those whose turn it is now.
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

  /** Says which transactions are open now, by names that are never used again. */
  note(open: ReadonlySet<string>): void {
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
    // Gaps are noted in rising order.
    const first = this.#gaps.keys().next();
    const end = first.done === true ? this.#highest + 1 : first.value;
    this.#position = end - 1;
    if (this.#held.length === 0) return [];
    this.#held.sort((a, b) => a.id - b.id);
    const count = this.#held.findIndex(({ id }) => id >= end);
    return this.#held.splice(0, count < 0 ? this.#held.length : count);
  }
}
