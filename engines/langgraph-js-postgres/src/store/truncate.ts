import type { Ops } from "@langchain/langgraph-api/storage";
import type { Database } from "./database.ts";

/** Empties tables: the `/internal/truncate` route of the stock server, which its tests use. */
export function truncate(database: Database, flags: Parameters<Ops["truncate"]>[0]): Promise<void> {
  return database.transaction(async (query) => {
    if (flags.runs || flags.threads) {
      for (const table of ["events", "ended_streams", "webhooks", "runs"]) await query(`delete from @${table}`);
    }
    if (flags.threads) await query("delete from @threads");
    if (flags.assistants)
      await query(`delete from @assistants where metadata ->> 'created_by' is distinct from 'system'`);
    if (flags.checkpointer) {
      for (const table of ["checkpoints", "checkpoint_blobs", "checkpoint_writes"])
        await query(`delete from @${table}`);
    }
    if (flags.store) await query("delete from @items");
  });
}
