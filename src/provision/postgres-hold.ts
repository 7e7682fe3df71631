import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { DatabaseServerError } from "./database-server.ts";
import { applicationName, type PostgresPrograms } from "./postgres-programs.ts";

/** What a move stores in a database, so that a later call finds it there. */
export interface HeldState {
  /** Whether the sessions of the agent are read-only. */
  isHeld: boolean;
  /** The comment of the database. */
  note: string | null;
}

/** Number of rows of each table by its name with the schema, without tables of extensions. */
export type RowCounts = Readonly<Record<string, number>>;

/** @throws DatabaseServerError */
export async function readHeldState(programs: PostgresPrograms): Promise<HeldState> {
  return await ask<HeldState>(
    programs,
    `select json_build_object(
       'isHeld', exists (select from pg_db_role_setting s where s.setdatabase = d.oid and s.setrole = 0
                           and 'default_transaction_read_only=on' = any(s.setconfig)),
       'note', shobj_description(d.oid, 'pg_database'))
       from pg_database d where d.datname = current_database()`,
  );
}

/**
 * Makes a database read-only for its agent, and ends the sessions that began before. Reads still work. This stays until
 * {@link releaseDatabase}, also when the server or the agent restarts.
 * @param at.name of the database and of the role that owns it
 * @param at.note stored as its comment
 */
export function holdDatabase(programs: PostgresPrograms, at: { name: string; note: string }): Promise<void> {
  return change(programs, at, "set default_transaction_read_only = on");
}

/** Lets the agent write again. Sessions that are still read-only end, so that the agent opens new ones. */
export function releaseDatabase(programs: PostgresPrograms, at: { name: string; note: string | null }): Promise<void> {
  return change(programs, at, "reset default_transaction_read_only");
}

/** Ends programs of this module that an interrupted call left behind, before another restore begins. */
export async function endRestores(programs: PostgresPrograms): Promise<void> {
  const end = `select pg_terminate_backend(pid, 10000) from pg_stat_activity
    where datname = current_database() and application_name = '${applicationName}' and pid <> pg_backend_pid()`;
  await psql(programs, [end]);
}

/** Changes only the comment of a database. */
export async function noteDatabase(programs: PostgresPrograms, at: { name: string; note: string }): Promise<void> {
  await psql(programs, [`set role "${at.name}"`, comment(at)]);
}

/**
 * Counts the rows of every table in one statement. `TABLESAMPLE` refuses views: the agent may replace a table by a view at any time, and
 * the functions of a view run with the operator's rights.
 */
export async function countRows(programs: PostgresPrograms): Promise<RowCounts> {
  const tables = await ask<string[]>(
    programs,
    `select coalesce(json_agg(format('%I.%I', n.nspname, c.relname)), '[]')
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind = 'r' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
        and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')`,
  );
  if (tables.length === 0) return {};
  const counts = tables.map(
    (table) => `select ${quoted(table)} as name, count(*) as rows from ${table} tablesample system (100)`,
  );
  return await ask<RowCounts>(
    programs,
    `select json_object_agg(name, rows order by name) from (${counts.join(" union all ")}) t`,
  );
}

/**
 * Returns how many rows sessions have written so far. A session can leave the read-only mode on purpose, so a move compares this
 * number before and after the copy. Temporary tables, which a read-only session may write, are not copied.
 */
export function countWrites(programs: PostgresPrograms): Promise<number> {
  return ask<number>(
    programs,
    "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint from pg_stat_user_tables where schemaname !~ '^pg_temp'",
  );
}

/** Returns whether an error of a program says that the server has no such database. */
export const isMissingDatabase = (error: unknown): boolean =>
  error instanceof DatabaseServerError && /database "[^"]*" does not exist/.test(error.message);

/** Sessions of a superuser are the operator's. Waits until the others have ended, because only then all their writes are counted. */
const endSessions =
  "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = current_database() and usename = current_user and pid <> pg_backend_pid()";

const comment = ({ name, note }: { name: string; note: string | null }) =>
  `comment on database "${name}" is ${note === null ? "null" : quoted(note)}`;

async function change(
  programs: PostgresPrograms,
  at: { name: string; note: string | null },
  setting: string,
): Promise<void> {
  const { name } = at;
  const role = `set role "${name}"`;
  // Several statements of one command are one transaction, so that no call finds one without the other.
  await psql(programs, [role, `alter database "${name}" ${setting}; ${comment(at)}`, endSessions]);
  // A session that was being opened may have the old setting. It is listed a moment later.
  await psql(programs, [role, "select pg_sleep(0.2)", endSessions]);
}

const quoted = (value: string) => `'${value.replaceAll("'", "''")}'`;

async function ask<T>(programs: PostgresPrograms, query: string): Promise<T> {
  return JSON.parse(await psql(programs, [query])) as T;
}

/**
 * The operator's role runs statements in a database whose owner may have changed its settings. These prevent that functions and
 * policies of the owner run with the operator's rights, and that the database is read-only for them.
 */
const safeSession = [
  "set search_path = pg_catalog",
  "set standard_conforming_strings = on",
  "set row_security = off",
  "set default_transaction_read_only = off",
];

/** Runs commands one after the other, each in its own transaction. @returns what they print */
async function psql(programs: PostgresPrograms, commands: readonly string[]): Promise<string> {
  const output = new PassThrough();
  const options = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"];
  const given = [...safeSession, ...commands].map((command) => `--command=${command}`);
  const [printed] = await Promise.all([text(output), programs.run("psql", [...options, ...given], output)]);
  return printed;
}
