import { currentUnit } from "./atomic-unit.ts";
import type { Db, Trx } from "./database.ts";
import { sqlState } from "./database-errors.ts";
import { outsideTransaction, refuseInsideTransaction } from "./statement-pool.ts";

/** Calls in one statement. A hundred keep PostgreSQL busy for some 10 ms, and their JSON is some 100 kB. */
const callsMax = 100;

/**
 * A statement that is under way for longer (it waits for a slow disk, or for a lock) no longer holds back the ones behind
 * it. The embedded database has one connection: there it always does.
 */
const patienceMs = 10;

/**
 * Joins calls that are made at the same time into one statement: one round trip, one commit and one wait for the disk
 * for all of them. A call that comes alone goes out at once; what comes while a statement is under way goes together when
 * that one has ended. Inside a transaction nothing is joined.
 *
 * @param run answers each item, in their order, with one statement: it takes effect as a whole or not at all. When it
 * fails because of what an item says, each is run alone, so that it fails for that one only.
 * @param atOnce statements on PostgreSQL: with more than one it works on a batch while this thread works on another.
 */
export function batched<Item, Result>(
  run: (db: Db | Trx, items: Item[]) => Promise<Result[]>,
  { atOnce = 1 }: { atOnce?: number } = {},
): (db: Db | Trx, item: Item) => Promise<Result> {
  const lines = new WeakMap<Db, Line<Item, Result>>();
  const alone = async (db: Db | Trx, item: Item) => (await run(db, [item]))[0] as Result;
  return (db, item) => {
    if (!("changes" in db) || currentUnit() !== undefined) return alone(db, item);
    refuseInsideTransaction();
    let line = lines.get(db);
    if (line === undefined) {
      line = new Line({
        together: (items) => run(db, items),
        alone: (one) => alone(db, one),
        isPatient: db.kind === "embedded",
        atOnce: db.kind === "embedded" ? 1 : atOnce,
      });
      lines.set(db, line);
    }
    return line.ask(item);
  };
}

interface Call<Item, Result> {
  item: Item;
  resolve: (result: Result | Promise<Result>) => void;
  reject: (error: unknown) => void;
}

interface Running<Item, Result> {
  together(items: Item[]): Promise<Result[]>;
  alone(item: Item): Promise<Result>;
  isPatient: boolean;
  atOnce: number;
}

/** The calls of one kind to one database. */
class Line<Item, Result> {
  readonly #run: Running<Item, Result>;
  #waiting: Call<Item, Result>[] = [];
  #isScheduled = false;
  #underWay = 0;

  constructor(run: Running<Item, Result>) {
    this.#run = run;
  }

  ask(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#schedule();
    });
  }

  /** Whatever else is asked in this turn of the event loop goes along. */
  #schedule(): void {
    if (this.#isScheduled || this.#underWay >= this.#run.atOnce || this.#waiting.length === 0) return;
    this.#isScheduled = true;
    outsideTransaction(() =>
      setImmediate(() => {
        this.#isScheduled = false;
        void this.#send();
      }),
    );
  }

  async #send(): Promise<void> {
    const calls = this.#waiting.splice(0, callsMax);
    this.#underWay += 1;
    let isCounted = true;
    const letNext = () => {
      if (!isCounted) return;
      isCounted = false;
      this.#underWay -= 1;
      this.#schedule();
    };
    const patience = this.#run.isPatient ? undefined : setTimeout(letNext, patienceMs);
    try {
      const results = await this.#run.together(calls.map(({ item }) => item));
      for (const [index, { resolve }] of calls.entries()) resolve(results[index] as Result);
    } catch (error) {
      const isOfOne = calls.length > 1 && /^2[123]/.test(sqlState(error) ?? "");
      for (const { item, resolve, reject } of calls) isOfOne ? resolve(this.#run.alone(item)) : reject(error);
    } finally {
      clearTimeout(patience);
      letNext();
    }
  }
}
