import assert from "node:assert/strict";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { appendBuildLog, appendLogEntries, appendReplicaLog } from "../../src/store/logs/log-entries.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld } from "./fixtures.ts";

const linesMaxOf: Record<Db["kind"], number> = { embedded: 50, postgres: 200 };

eachDatabase("writes lines in statements that other statements need not wait for long", async (db) => {
  const world = await makeWorld(db);
  const { listenerId } = world;
  const linesMax = linesMaxOf[db.kind];
  const line = { stream: "stdout", level: "INFO", timestamp: new Date(0).toISOString(), message: "a line" } as const;
  const signal = AbortSignal.timeout(60_000);
  const ways: Record<string, (ids: { deployment_id: string; revision_id: string }, keys: string[]) => Promise<void>> = {
    "of a replica": (ids, keys) =>
      appendReplicaLog(db, {
        listenerId,
        signal,
        lines: keys.map((key) => ({ ...ids, ...line, key, replica_id: "r" })),
      }),
    "of a build elsewhere": (ids, keys) =>
      appendBuildLog(db, { listenerId, ids, lines: keys.map((key) => ({ ...line, key })) }),
    "of a build": (ids, keys) => {
      const { timestamp, ...rest } = line;
      const entry = { ...ids, ...rest, kind: "build", replica_id: null, logged_at: new Date(timestamp) } as const;
      return appendLogEntries(
        db,
        keys.map((line_key) => ({ ...entry, line_key })),
      );
    },
  };
  for (const [name, append] of Object.entries(ways)) {
    const { id, revisionId } = await makeDeployment(db, world);
    const keys = Array.from({ length: 2 * linesMax + 1 }, (_, number) => `line-${number}`);
    await append({ deployment_id: id, revision_id: revisionId }, keys);
    // The lines of a statement have the same transaction.
    const { rows } = await db.query<{ lines: number }>(sql`
      select count(*)::int as lines from log_entries where deployment_id = ${id} group by xmin order by min(id)`);
    assert.deepEqual(
      rows.map(({ lines }) => lines),
      [linesMax, linesMax, 1],
      name,
    );
  }
});
