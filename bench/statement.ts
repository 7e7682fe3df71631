import { randomUUID } from "node:crypto";
import { lockDeployment } from "../src/store/deployments/deployments.ts";
import type { Db, Trx } from "../src/store/engine/database.ts";
import { sql } from "../src/store/engine/sql.ts";
import type { Sealer } from "../src/store/secrets/seal.ts";
import { createWithoutHttp, type Owner } from "./requests.ts";

/** One statement as sent by the store. */
export interface Statement {
  text: string;
  values: Value[];
}

/** `unique` stands for a value that differs on each run; equal numbers mean equal values. `sql` is for pgbench only. */
export type Value = { constant: unknown } | { unique: number; type: "uuid" | "text" } | { sql: string };

/** Returns the statement behind `GET /v2/deployments/{id}` for one deployment. */
export async function readStatement(owner: Owner, deploymentId: string): Promise<Statement> {
  const [sent] = await statementsOf((trx) => lockDeployment(trx, owner.workspaceId, deploymentId));
  const text = (sent?.text ?? "").replace(/ for update of d$/, "");
  return { text, values: (sent?.values ?? []).map((constant) => ({ constant })) };
}

/**
 * Returns the rows that `POST /v2/deployments` writes, as plain inserts in one statement. They are read from a database in which
 * a deployment was created, so that the floor follows the store without knowing its code.
 */
export async function createStatement({ db, sealer }: { db: Db; sealer: Sealer }, owner: Owner): Promise<Statement> {
  const first = await writtenBy(db, await createWithoutHttp(db, sealer, owner));
  const second = await writtenBy(db, await createWithoutHttp(db, sealer, owner));
  const numbers = new Map<unknown, number>();
  const values: Value[] = [];
  const inserts = first.map(({ table, row }, index) => {
    const columns = Object.keys(row);
    const places = columns.map((column) => {
      values.push(toValue(row[column], second[index]?.row[column], numbers));
      return `$${values.length}`;
    });
    return `w${index} as (insert into ${table} (${columns.join(", ")}) values (${places.join(", ")}))`;
  });
  return { text: `with ${inserts.join(", ")} select 1`, values };
}

interface WrittenRow {
  table: string;
  row: Record<string, unknown>;
}

/** Returns all rows of the transaction that created a deployment, without generated columns. */
async function writtenBy(db: Db, { id }: { id: string }): Promise<WrittenRow[]> {
  const { rows: columns } = await db.query<{ table: string; columns: string[] }>(sql`
    select table_name as "table", array_agg(column_name::text order by ordinal_position) as columns
      from information_schema.columns where table_schema = 'public' and is_identity = 'NO'
     group by table_name order by table_name`);
  const written: WrittenRow[] = [];
  for (const { table, columns: names } of columns) {
    const { rows } = await db.query<{ row: Record<string, unknown> }>(sql`
      select to_jsonb(t) as row from ${sql.identifier(table)} t
       where t.xmin = (select xmin from deployments where id = ${id})`);
    for (const { row } of rows)
      written.push({ table, row: Object.fromEntries(names.map((name) => [name, row[name]])) });
  }
  return written;
}

function toValue(value: unknown, other: unknown, numbers: Map<unknown, number>): Value {
  const isId = typeof value === "string" && value !== other && /^bench-|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-/.test(value);
  if (!isId) return { constant: typeof value === "object" && value !== null ? JSON.stringify(value) : value };
  if (!numbers.has(value)) numbers.set(value, numbers.size);
  return { unique: numbers.get(value) as number, type: value.startsWith("bench-") ? "text" : "uuid" };
}

/** Returns the minimum that a reconciler writes to bring a deployment from accepted to DEPLOYED: its status moves, one per line. */
export function moveStatements(ids: { deployment: string; revision: string }): Statement[] {
  const deployment: Statement = {
    text: `with moved as (
        update deployments set status = 'READY', status_since = now(), updated_at = now()
         where id = $1 and status = 'AWAITING_DATABASE' returning id as deployment_id, tenant_id
      ), event as (
        insert into events (tenant_id, deployment_id, kind, data)
        select tenant_id, deployment_id, 'deployment.status', $2::jsonb from moved
      ) select deployment_id from moved`,
    values: [{ sql: ids.deployment }, { constant: '{"from":"AWAITING_DATABASE","to":"READY"}' }],
  };
  const revision = ways.map(
    ([from, to]): Statement => ({
      text: `with moved as (
        update revisions set status = $1, status_since = now(), updated_at = now()
         where id = $2 and status = $3 returning id, deployment_id, tenant_id
      ), event as (
        insert into events (tenant_id, deployment_id, revision_id, kind, data)
        select tenant_id, deployment_id, id, 'revision.status', $4::jsonb from moved
      ) select deployment_id from moved`,
      values: [
        { constant: to },
        { sql: ids.revision },
        { constant: from },
        { constant: JSON.stringify({ from, to, because: "bench" }) },
      ],
    }),
  );
  return [deployment, ...revision];
}

const ways = [
  ["CREATING", "QUEUED"],
  ["QUEUED", "AWAITING_DEPLOY"],
  ["AWAITING_DEPLOY", "DEPLOYING"],
  ["DEPLOYING", "DEPLOYED"],
] as const;

/** Returns values for one more run. */
export function freshValues({ values }: Statement): unknown[] {
  const made = new Map<number, string>();
  return values.map((value) => {
    if ("constant" in value) return value.constant;
    if ("sql" in value) throw new Error("such a statement is for pgbench");
    const known = made.get(value.unique) ?? randomUUID();
    made.set(value.unique, known);
    return known;
  });
}

/** Returns the statement as a pgbench script, which makes unique values from random 62-bit numbers. */
export function pgbenchScript({ text, values }: Statement): string {
  const uniques = new Set(values.flatMap((value) => ("unique" in value ? [value.unique] : [])));
  const sets = [...uniques].map((number) => `\\set u${number} random(1, 4611686018427387903)\n`).join("");
  const filled = text.replace(/\$(\d+)/g, (_, position) => sqlOf(values[Number(position) - 1] as Value));
  return `${sets}${filled.replaceAll(/\s+/g, " ").trim()};\n`;
}

function sqlOf(value: Value): string {
  if ("sql" in value) return value.sql;
  if ("unique" in value) {
    const hex = `to_hex(:u${value.unique}::bigint)`;
    return value.type === "uuid" ? `lpad(${hex}, 32, '0')::uuid` : `('bench-' || ${hex})`;
  }
  const { constant } = value;
  if (constant === null || constant === undefined) return "null";
  if (Buffer.isBuffer(constant)) return quoted(`\\x${constant.toString("hex")}`);
  return quoted(constant instanceof Date ? constant.toISOString() : `${constant}`);
}

/** Avoids colons, because pgbench reads `:name` as a variable even within quotes. */
function quoted(text: string): string {
  return `E'${text.replaceAll("\\", "\\\\").replaceAll("'", "''").replaceAll(":", "\\x3a")}'`;
}

/** Runs store code without a database and records the statements that it would send. */
async function statementsOf(act: (trx: Trx) => Promise<unknown>): Promise<{ text: string; values: unknown[] }[]> {
  const sent: { text: string; values: unknown[] }[] = [];
  const trx: Trx = {
    isTransaction: true,
    async query({ text, values }) {
      sent.push({ text, values: [...values] });
      return { rowCount: 0, rows: [] };
    },
  };
  await act(trx);
  return sent;
}
