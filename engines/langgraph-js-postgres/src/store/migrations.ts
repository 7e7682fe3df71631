import type { Database, Query } from "./database.ts";

/**
 * The changes of the schema, oldest first. Each runs in a transaction of its own. A released one is never edited, and each
 * only adds: the program of the previous version goes on working beside the new one during a rolling update.
 */
const migrations: string[] = [
  `create table @assistants (
     assistant_id text primary key, graph_id text not null, name text not null, description text, version integer not null,
     config json not null, context json not null, metadata json not null, search jsonb not null,
     created_at timestamptz not null default now(), updated_at timestamptz not null default now());
   create index on @assistants using gin (search jsonb_path_ops);
   create table @assistant_versions (
     assistant_id text not null references @assistants on delete cascade, version integer not null, graph_id text not null,
     name text not null, description text, config json not null, context json not null, metadata json not null,
     search jsonb not null, created_at timestamptz not null default now(), primary key (assistant_id, version));
   create table @threads (
     thread_id text primary key, status text not null, metadata json not null, search jsonb not null, config json not null,
     "values" json, values_search jsonb, interrupts json,
     created_at timestamptz not null default now(), updated_at timestamptz not null default now());
   create index on @threads using gin (search jsonb_path_ops);
   create index on @threads (created_at);
   create index on @threads (updated_at);
   create table @runs (
     run_id text primary key, thread_id text not null references @threads on delete cascade, assistant_id text not null,
     graph_id text not null, status text not null, metadata json not null, search jsonb not null, kwargs json not null,
     multitask_strategy text not null, created_at timestamptz not null default now(),
     updated_at timestamptz not null default now(), due_at timestamptz not null default now(),
     attempt integer not null default 0, recovered integer not null default 0, last_checkpoint text,
     lease_owner text, lease_until timestamptz, cancel_action text);
   create unique index runs_one_running on @runs (thread_id) where status = 'running';
   create index on @runs (due_at, run_id) where status = 'pending';
   create index on @runs (lease_until) where status = 'running';
   create index on @runs (thread_id, created_at);
   create index on @runs (assistant_id);
   create table @events (
     run_id text not null, seq integer not null, event text not null, data json not null, normalized boolean,
     primary key (run_id, seq));
   create table @ended_streams (run_id text primary key, thread_id text not null, ended_at timestamptz not null default now());
   create index on @ended_streams (ended_at);
   create index on @ended_streams (thread_id);`,
  `create table @crons (
     cron_id text primary key, assistant_id text not null references @assistants on delete cascade,
     thread_id text references @threads on delete cascade, schedule text not null, timezone text, end_time timestamptz,
     enabled boolean not null, on_run_completed text not null, payload json not null, metadata json not null,
     search jsonb not null, auth json, user_id text, next_run_at timestamptz,
     created_at timestamptz not null default now(), updated_at timestamptz not null default now());
   create index on @crons (next_run_at) where enabled;
   create table @webhooks (
     webhook_id bigint generated always as identity primary key, run_id text not null, url text not null,
     payload json not null, attempt integer not null default 0, due_at timestamptz not null default now());
   create index on @webhooks (due_at);`,
  `create table @items (
     path text collate "C" not null, key text collate "C" not null, value json not null, search jsonb not null,
     created_at timestamptz not null default now(), updated_at timestamptz not null default now(), primary key (path, key));
   create index on @items (updated_at);`,
  // Deleting a thread or an assistant looks for their crons.
  `create index on @crons (thread_id) where thread_id is not null;
   create index on @crons (assistant_id);`,
  // The metadata of the thread, for the auth handler: a run without a thread ends with its thread.
  "alter table @ended_streams add column metadata json",
  // States of the file engine that were copied.
  "create table @imports (digest text primary key, counts json not null, imported_at timestamptz not null default now())",
  // Runs that failed and runs that were recovered since the schema exists. Deleted runs count as well.
  "create table @totals (name text primary key, total bigint not null)",
];

/** Brings the schema up to date. Replicas that start at once wait for each other. A newer schema is left as it is. */
export async function migrate(database: Database, tables: (query: Query) => Promise<void>): Promise<void> {
  await inTurn(database, async (query) => {
    const [found] = await query("select 1 from pg_namespace where nspname = $1", [database.schema]);
    if (found === undefined) await query(`create schema "${database.schema}"`);
    await query(
      "create table if not exists @engine_migrations (version integer primary key, applied_at timestamptz default now())",
    );
  });
  for (const [index, text] of migrations.entries()) {
    await inTurn(database, async (query) => {
      const [done] = await query("select 1 from @engine_migrations where version = $1", [index + 1]);
      if (done !== undefined) return;
      await query(text);
      await query("insert into @engine_migrations (version) values ($1)", [index + 1]);
    });
  }
  await inTurn(database, tables);
}

const inTurn = (database: Database, act: (query: Query) => Promise<void>) =>
  database.transaction(async (query) => {
    await query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [`langgraph-js-postgres ${database.schema}`]);
    await act(query);
  });
