import { AsyncLocalStorage } from "node:async_hooks";
import type { Trx } from "./statement-pool.ts";

/** A transaction that every statement joins that is sent while it runs, by its callback or by any function it calls. */
interface AtomicUnit {
  trx: Trx;
  isRunning: boolean;
  afterCommit: (() => void)[];
}

const units = new AsyncLocalStorage<AtomicUnit>();

/** Returns the transaction that statements sent from here belong to; undefined outside of a unit. */
export function currentUnit(): Trx | undefined {
  const unit = units.getStore();
  return unit?.isRunning === true ? unit.trx : undefined;
}

/** Runs `act` once the current unit has committed, and never if the unit rolls back. Outside of a unit, runs it at once. */
export function afterCommit(act: () => void): void {
  const unit = units.getStore();
  if (unit?.isRunning === true) unit.afterCommit.push(act);
  else act();
}

/**
 * Runs `act` as a unit.
 * @param transact runs its argument as one transaction, possibly more than once.
 */
export async function runUnit<T>(
  transact: (act: (trx: Trx) => Promise<T>) => Promise<T>,
  act: () => Promise<T>,
): Promise<T> {
  let committed: AtomicUnit["afterCommit"] = [];
  const result = await transact(async (trx) => {
    const unit: AtomicUnit = { trx, isRunning: true, afterCommit: [] };
    committed = unit.afterCommit;
    try {
      return await units.run(unit, act);
    } finally {
      unit.isRunning = false;
    }
  });
  for (const one of committed) one();
  return result;
}
