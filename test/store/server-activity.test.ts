import assert from "node:assert/strict";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { recordServerActivity } from "../../src/store/queue/server-activity.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld } from "./fixtures.ts";

const pauseMs = 600_000;

/** A revision with a minute left when the last server polled, ten minutes ago. */
async function leftAlone(db: Db) {
  const { revisionId } = await makeDeployment(db, await makeWorld(db));
  await db.query(sql`update revisions set deadline_at = now() - interval '9 minutes' where id = ${revisionId}`);
  await db.query(sql`update clock set worked_at = now() - ${pauseMs} * interval '1 millisecond'`);
  return async () => {
    const { rows } = await db.query<{ left: number }>(sql`
      select extract(epoch from deadline_at - now())::float8 as left from revisions where id = ${revisionId}`);
    return rows[0]?.left ?? Number.NaN;
  };
}

eachDatabase("deadlines exclude the time in which no server polled", async (db) => {
  const left = await leftAlone(db);
  assert.ok((await recordServerActivity(db)) >= pauseMs);
  const seconds = await left();
  assert.ok(seconds > 0 && seconds <= 61, `${seconds} s are left of a minute`);
  assert.equal(await recordServerActivity(db), 0);
});

eachDatabase("servers that start together extend deadlines only once", async (db) => {
  const left = await leftAlone(db);
  const pauses = await Promise.all(Array.from({ length: 5 }, () => recordServerActivity(db)));
  assert.equal(pauses.filter((ms) => ms > 0).length, 1);
  assert.ok((await left()) <= 61);
});

eachDatabase("deadlines are unchanged while any server polls", async (db) => {
  const left = await leftAlone(db);
  await db.query(sql`update clock set worked_at = now() - interval '7 seconds'`);
  assert.equal(await recordServerActivity(db), 0);
  assert.ok((await left()) < -500);
});
