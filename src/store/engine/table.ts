import { type Sql, sql } from "./sql.ts";

/** A column: its type in PostgreSQL, and `T` as the type of its values in rows. */
export interface Column<T> {
  /** Name as `format_type` of PostgreSQL writes it. */
  readonly type: string;
  readonly isNullable: boolean;
  /** Carries the type `T`. Never set at run time. */
  readonly value?: T;
}

export type Columns = Readonly<Record<string, Column<unknown>>>;

/** Row type of a set of columns. */
export type RowOf<C extends Columns> = { [Name in keyof C]: C[Name] extends Column<infer T> ? T : never };

/** The one declaration of a SQL table: row types, select lists and record sets derive from it. */
export interface Table<C extends Columns> {
  readonly name: string;
  readonly columns: C;
}

/** Declares a table. A test compares all declarations with the migrated database. */
export function table<C extends Columns>(name: string, columns: C): Table<C> {
  return { name, columns };
}

const column = <T>(type: string): Column<T> => ({ type, isNullable: false });

export const uuid = column<string>("uuid");
export const text = column<string>("text");
/** `textOf<"a" | "b">()`: a text column with a fixed set of values. */
export const textOf = <T extends string>() => column<T>("text");
export const boolean = column<boolean>("boolean");
export const smallint = column<number>("smallint");
export const integer = column<number>("integer");
/** Read as a number: identities and sizes stay far below 2^53. */
export const bigint = column<number>("bigint");
export const double = column<number>("double precision");
export const timestamp = column<Date>("timestamp with time zone");
export const bytea = column<Buffer>("bytea");
/** Read as a value and written as JSON text. */
export const jsonb = column<unknown>("jsonb");
export const jsonbOf = <T>() => column<T>("jsonb");

export const nullable = <T>({ type }: Column<T>): Column<T | null> => ({ type, isNullable: true });
export const arrayOf = <T>({ type }: Column<T>): Column<T[]> => ({ type: `${type}[]`, isNullable: false });

/** Returns some of a table's columns, in the given order. */
export function pick<C extends Columns, const Name extends keyof C & string>(
  { columns }: Table<C>,
  ...names: readonly Name[]
): Pick<C, Name> {
  return Object.fromEntries(names.map((name) => [name, columns[name]])) as Pick<C, Name>;
}

/** Returns the select list of the columns: `d.id, d.name`. Call it once, when the module loads. */
export function selectList(columns: Columns, alias?: string): Sql {
  return sql.raw(
    Object.keys(columns)
      .map((name) => (alias === undefined ? name : `${alias}.${name}`))
      .join(", "),
  );
}

/**
 * Returns the column definitions of a record set: `(id uuid, name text)`, for
 * `from jsonb_to_recordset(${rows}::jsonb) as r ${recordColumns(columns)}`. Call it once, when the module loads.
 */
export function recordColumns(columns: Columns): Sql {
  return sql.raw(
    `(${Object.entries(columns)
      .map(([name, { type }]) => `"${name}" ${type}`)
      .join(", ")})`,
  );
}
