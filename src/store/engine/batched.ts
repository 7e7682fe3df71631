import { currentUnit } from "./atomic-unit.ts";
import type { Db, Trx } from "./database.ts";
import { sqlState } from "./database-errors.ts";
import { outsideTransaction, refuseInsideTransaction } from "./statement-pool.ts";

/** The most calls in one statement. A hundred keep PostgreSQL busy for about 10 ms, and their JSON is about 100 kB. */
const callsMax = 100;

/**
 * After this time, calls stop waiting for the statement in flight, which waits for a slow disk or a lock. On the
 * embedded database they always wait, because it has one connection.
 */
const blockingMsMax = 10;

/**
 * Batches concurrent calls into one statement: one round trip, one commit and one wait for the disk for all of them. A
 * single call is sent at once. Calls that arrive while a statement is in flight are sent together when it ends. Inside a
 * transaction nothing is batched.
 *
 * @param run returns one result for each item, in their order, from one statement that takes effect as a whole or not at
 * all. When the data of one item makes the statement fail, each item is run alone, so that only that item's call fails.
 * @param atOnce statements in flight on PostgreSQL. With more than one, PostgreSQL works on a batch while this thread
 * works on another.
 */
export function batched<Item, Result>(
  run: (db: Db | Trx, items: Item[]) => Promise<Result[]>,
  { atOnce = 1 }: { atOnce?: number } = {},
): (db: Db | Trx, item: Item) => Promise<Result> {
  const batchers = new WeakMap<Db, Batcher<Item, Result>>();
  const alone = async (db: Db | Trx, item: Item) => (await run(db, [item]))[0] as Result;
  return (db, item) => {
    if (!("changes" in db) || currentUnit() !== undefined) return alone(db, item);
    refuseInsideTransaction();
    let batcher = batchers.get(db);
    if (batcher === undefined) {
      batcher = new Batcher({
        together: (items) => run(db, items),
        alone: (one) => alone(db, one),
        isSerial: db.kind === "embedded",
        atOnce: db.kind === "embedded" ? 1 : atOnce,
      });
      batchers.set(db, batcher);
    }
    return batcher.add(item);
  };
}

interface Call<Item, Result> {
  item: Item;
  resolve: (result: Result | Promise<Result>) => void;
  reject: (error: unknown) => void;
}

interface BatchRunner<Item, Result> {
  together(items: Item[]): Promise<Result[]>;
  alone(item: Item): Promise<Result>;
  isSerial: boolean;
  atOnce: number;
}

/** The queue of calls of one kind to one database. */
class Batcher<Item, Result> {
  readonly #run: BatchRunner<Item, Result>;
  #waiting: Call<Item, Result>[] = [];
  #isScheduled = false;
  #inFlight = 0;

  constructor(run: BatchRunner<Item, Result>) {
    this.#run = run;
  }

  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#schedule();
    });
  }

  /** Sends the queued calls after this turn of the event loop, together with the calls that are added during it. */
  #schedule(): void {
    if (this.#isScheduled || this.#inFlight >= this.#run.atOnce || this.#waiting.length === 0) return;
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
    this.#inFlight += 1;
    let isBlocking = true;
    const unblock = () => {
      if (!isBlocking) return;
      isBlocking = false;
      this.#inFlight -= 1;
      this.#schedule();
    };
    const blockingTimer = this.#run.isSerial ? undefined : setTimeout(unblock, blockingMsMax);
    try {
      const results = await this.#run.together(calls.map(({ item }) => item));
      for (const [index, { resolve }] of calls.entries()) resolve(results[index] as Result);
    } catch (error) {
      const isOfOne = calls.length > 1 && /^2[123]/.test(sqlState(error) ?? "");
      for (const { item, resolve, reject } of calls) isOfOne ? resolve(this.#run.alone(item)) : reject(error);
    } finally {
      clearTimeout(blockingTimer);
      unblock();
    }
  }
}
