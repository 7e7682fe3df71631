import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startWithTwoWorkspaces, type TwoWorkspaces } from "./two-workspaces.ts";
import { victimIsAnsweredBeside, withoutPause } from "./victim-answers.ts";

/** Revisions that fail have the traceback of their agent in their events: 29 kB each. */
let world: TwoWorkspaces;
const events = 1_000;
const mib = 1024 * 1024;

before(async () => {
  world = await startWithTwoWorkspaces({ PIERHEAD_COMPUTE: "none" });
  const data = JSON.stringify({ message: "x".repeat(29_000) });
  await world.pierhead.server.db.query(sql`
    insert into events (tenant_id, kind, data)
    select ${world.attacker.id}::uuid, 'revision.status', jsonb_set(${data}::jsonb, '{at}', to_jsonb(n))
      from generate_series(1, ${events}::int) n`);
});
after(() => world[Symbol.asyncDispose]());

interface Page {
  events: { data: { at?: number } }[];
  position: string;
}

const ask = async (query: string, signal?: AbortSignal) => {
  const headers = { "x-api-key": world.attacker.apiKey };
  const url = `${world.pierhead.url}/v2/events?limit=1000${query}`;
  const answer = await fetch(url, { headers, ...(signal && { signal }) });
  const text = await answer.text();
  return { bytes: text.length, page: JSON.parse(text) as Page };
};

test("a page of large events ends early, and the next one continues without a gap", async () => {
  for (const order of ["asc", "desc"]) {
    const read: number[] = [];
    let after = "";
    for (let count = 0; count < 10; count += 1) {
      const { bytes, page } = await ask(`&order=${order}${after}`);
      assert.ok(bytes < 9 * mib, `${bytes} bytes`);
      if (page.events.length === 0) break;
      read.push(...page.events.flatMap(({ data }) => data.at ?? []));
      after = `&after=${page.position}`;
    }
    const all = Array.from({ length: events }, (_, at) => at + 1);
    assert.deepEqual(read, order === "asc" ? all : all.toReversed());
  }
});

test("another workspace is answered while one reads pages of large events all the time", async () => {
  await victimIsAnsweredBeside(
    world,
    withoutPause((signal) => ask("", signal)),
  );
});
