import { randomBytes, randomUUID } from "node:crypto";
import { Kysely, PostgresDialect } from "kysely";
import type { Db } from "../src/store/database.ts";
import { findDeployment, moveDeployment } from "../src/store/deployments.ts";
import { moveRevision } from "../src/store/revisions.ts";
import { createWithoutHttp, type Owner, secretValues } from "./requests.ts";

/** One statement as the store sends it. */
export interface Statement {
  text: string;
  values: Value[];
}

/** `unique` stands for a value that differs each time, equal numbers for equal values; `sql` is for pgbench alone. */
export type Value = { constant: unknown } | { unique: number; type: "uuid" | "text" } | { sql: string };

/** The read behind `GET /v2/deployments/{id}`. */
export async function readStatement(owner: Owner, deploymentId: string): Promise<Statement> {
  const [sent] = await statementsOf((db) => findDeployment(db, owner.workspaceId, deploymentId));
  return { text: sent?.text ?? "", values: (sent?.values ?? []).map((constant) => ({ constant })) };
}

/** The write behind `POST /v2/deployments`. `dataKeyId`: a key the sealed secrets may name. */
export async function createStatement(owner: Owner, dataKeyId: string): Promise<Statement> {
  // As long as what AES-GCM makes of it.
  const sealer = {
    seal: (text: Buffer) => ({ keyId: dataKeyId, sealed: randomBytes(text.length + 29) }),
    open: () => Buffer.from(JSON.stringify(secretValues)),
  };
  const capture = async () => {
    const all = await statementsOf((db) => createWithoutHttp(db, sealer, owner));
    const insert = all.find(({ text }) => /insert into deployments /.test(text));
    if (insert === undefined) throw new Error("the store creates deployments in another way now");
    return insert;
  };
  const [first, second] = [await capture(), await capture()];
  const numbers = new Map<unknown, number>();
  const values = first.values.map((value, index): Value => {
    const differs = value !== second.values[index];
    if (!differs || typeof value !== "string" || value.startsWith("{")) return { constant: value };
    if (!numbers.has(value)) numbers.set(value, numbers.size);
    return { unique: numbers.get(value) as number, type: uuidText.test(value) ? "uuid" : "text" };
  });
  return { text: first.text, values };
}

const uuidText = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** What a reconciler writes at least to bring one deployment from accepted to DEPLOYED: its status moves, one a line. */
export async function moveStatements(ids: { deployment: string; revision: string }): Promise<Statement[]> {
  const [deployment, revision] = [{ id: randomUUID() }, { id: randomUUID() }];
  const sent = await statementsOf(async (db) => {
    await moveDeployment(db, deployment.id, { from: "AWAITING_DATABASE", to: "READY" });
    for (const [from, to] of ways) {
      const at = { id: revision.id, deploymentId: deployment.id };
      await moveRevision(db, at, { from, to, because: "bench", deadlineAt: null });
    }
  });
  return sent.map(({ text, values }) => ({
    text,
    values: values.map((value): Value => {
      if (value === deployment.id) return { sql: ids.deployment };
      return value === revision.id ? { sql: ids.revision } : { constant: value };
    }),
  }));
}

const ways = [
  ["CREATING", "QUEUED"],
  ["QUEUED", "AWAITING_DEPLOY"],
  ["AWAITING_DEPLOY", "DEPLOYING"],
  ["DEPLOYING", "DEPLOYED"],
] as const;

/** Values for one more time. */
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

/** The same as a script of pgbench, which makes the unique values from random numbers of 62 bits. */
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

/** Without colons: pgbench takes `:name` for a variable of its own even within quotes. */
function quoted(text: string): string {
  return `E'${text.replaceAll("\\", "\\\\").replaceAll("'", "''").replaceAll(":", "\\x3a")}'`;
}

/** Runs code of ours against nothing and keeps what it would have sent: so no floor lags behind the store. */
async function statementsOf(act: (db: Db) => Promise<unknown>): Promise<{ text: string; values: unknown[] }[]> {
  const sent: { text: string; values: unknown[] }[] = [];
  const client = {
    async query(text: string, values: readonly unknown[]) {
      sent.push({ text, values: [...values] });
      return { command: "SELECT", rowCount: 0, rows: [] };
    },
    release() {},
  };
  const pool = { connect: async () => client, end: async () => {} };
  const kysely = new Kysely({ dialect: new PostgresDialect({ pool: pool as never }) });
  const transaction = (inside: (trx: unknown) => Promise<unknown>) => inside({ kysely });
  await act({ kysely, kind: "postgres", transaction, reached() {}, changes: { wake() {} } } as unknown as Db);
  return sent;
}
