import type {
  Item,
  ListNamespacesOperation,
  MatchCondition,
  Operation,
  OperationResults,
  SearchItem,
  SearchOperation,
} from "@langchain/langgraph-checkpoint";
import type { Stock } from "../stock.ts";
import { Conditions } from "./conditions.ts";
import { type Database, repeated } from "./database.ts";
import { exact, plainText, searchable } from "./json.ts";

/**
 * A namespace is stored as the JSON of its labels, each followed by a comma. The items below a prefix are then one range of
 * the primary key, every label is possible, and `["a"]` is no prefix of `["ab"]`.
 */
export const pathOf = (namespace: string[]) => namespace.map((label) => `${JSON.stringify(label)},`).join("");

export const namespaceOf = (path: string): string[] => JSON.parse(`[${path.slice(0, -1)}]`);

interface Row {
  path: string;
  key: string;
  value: Record<string, unknown>;
  created_at: Date;
  updated_at: Date;
}

const columns = "path, key, value, created_at, updated_at";

/** Lets the store of the server work on the database. Graphs and the store routes use it. */
export function installStore(database: Database, stock: Stock): void {
  const items = new Items(database);
  const one = async <T>(operation: Operation) => (await repeated(() => items.batch([operation])))[0] as T;
  Object.assign(stock.store, {
    initialize: async () => ({ flush: async () => {} }),
    batch: (operations: Operation[]) => repeated(() => items.batch(operations)),
    get: (namespace: string[], key: string) => one({ namespace, key }),
    search: (namespacePrefix: string[], options: Omit<SearchOperation, "namespacePrefix"> = {}) =>
      one({ limit: 10, offset: 0, ...options, namespacePrefix }),
    put: (namespace: string[], key: string, value: Record<string, unknown>) => one({ namespace, key, value }),
    delete: (namespace: string[], key: string) => one({ namespace, key, value: null }),
    listNamespaces: ({ prefix, suffix, maxDepth, limit = 100, offset = 0 }: ListOptions = {}) => {
      const matchConditions: MatchCondition[] = [];
      if (prefix !== undefined) matchConditions.push({ matchType: "prefix", path: prefix });
      if (suffix !== undefined) matchConditions.push({ matchType: "suffix", path: suffix });
      return one({ matchConditions, limit, offset, ...(maxDepth !== undefined && { maxDepth }) });
    },
    clear: () => database.query("delete from @items"),
  });
}

interface ListOptions {
  prefix?: string[];
  suffix?: string[];
  maxDepth?: number;
  limit?: number;
  offset?: number;
}

class Items {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Reads see the state before the writes of the same batch, as in the file engine. */
  async batch<Ops extends Operation[]>(operations: Ops): Promise<OperationResults<Ops>> {
    const results: unknown[] = [];
    const puts: Extract<Operation, { value: unknown }>[] = [];
    for (const operation of operations) {
      if ("namespacePrefix" in operation) results.push(await this.#search(operation));
      else if ("value" in operation) {
        puts.push(operation);
        results.push(undefined);
      } else if ("key" in operation) results.push(await this.#get(operation.namespace, operation.key));
      else results.push(await this.#listNamespaces(operation));
    }
    for (const { namespace, key, value } of puts) await this.#put(namespace, key, value);
    return results as OperationResults<Ops>;
  }

  async #get(namespace: string[], key: string): Promise<Item | null> {
    const [row] = await this.#database.query<Row>(`select ${columns} from @items where path = $1 and key = $2`, [
      pathOf(namespace),
      JSON.stringify(key),
    ]);
    return row === undefined ? null : itemOf(row);
  }

  async #put(namespace: string[], key: string, value: Record<string, unknown> | null): Promise<void> {
    const id = [pathOf(namespace), JSON.stringify(key)];
    if (value === null) await this.#database.query("delete from @items where path = $1 and key = $2", id);
    else {
      await this.#database.query(
        `insert into @items (path, key, value, search) values ($1, $2, $3, $4)
         on conflict (path, key) do update set value = excluded.value, search = excluded.search, updated_at = now()`,
        [...id, exact(value), searchable(value)],
      );
    }
  }

  async #search({ namespacePrefix, filter, limit = 10, offset = 0 }: SearchOperation): Promise<SearchItem[]> {
    const where = below(pathOf(namespacePrefix));
    for (const [key, value] of Object.entries(filter ?? {})) addFilter(where, key, value);
    const rows = await this.#database.query<Row>(
      `select ${columns} from @items where ${where} order by created_at, path, key
       limit ${where.parameter(limit)} offset ${where.parameter(offset)}`,
      where.values,
    );
    return rows.map((row) => ({ ...itemOf(row), score: undefined as never }));
  }

  async #listNamespaces({
    matchConditions = [],
    maxDepth,
    limit,
    offset,
  }: ListNamespacesOperation): Promise<string[][]> {
    const prefix = matchConditions.find(({ matchType }) => matchType === "prefix")?.path ?? [];
    const wildcard = prefix.indexOf("*");
    const where = below(pathOf(wildcard === -1 ? prefix : prefix.slice(0, wildcard)));
    const rows = await this.#database.query<{ path: string }>(
      // Jumps from one namespace to the next in the primary key, however many items they have.
      `with recursive found as (
         (select path from @items where ${where} order by path limit 1)
         union all
         select (select i.path from @items i where i.path > found.path and ${where} order by i.path limit 1)
         from found where found.path is not null)
       select path from found where path is not null`,
      where.values,
    );
    const matching = rows
      .map(({ path }) => namespaceOf(path))
      .filter((namespace) => matchConditions.every((condition) => matches(condition, namespace)));
    const cut = new Map(matching.map((namespace) => namespace.slice(0, maxDepth)).map((one) => [pathOf(one), one]));
    const sorted = [...cut.values()].sort((a, b) => a.join(":").localeCompare(b.join(":")));
    return sorted.slice(offset ?? 0, (offset ?? 0) + (limit ?? sorted.length));
  }
}

/** The range of the primary key below a prefix: "," is followed by "-" in the collation C. */
function below(prefix: string): Conditions {
  const where = new Conditions();
  if (prefix !== "") where.add("path >= ?", prefix).add("path < ?", `${prefix.slice(0, -1)}-`);
  return where;
}

const operators: Record<string, string> = { $gt: ">", $gte: ">=", $lt: "<", $lte: "<=" };

function addFilter(where: Conditions, key: string, wanted: unknown): void {
  const field = `search -> ${where.parameter(plainText(key))}::text`;
  const conditions = isOperators(wanted) ? Object.entries(wanted) : [["$eq", wanted] as const];
  for (const [operator, value] of conditions) {
    const text = searchable(value);
    if (operator === "$eq") where.add(`${field} = ?::jsonb`, text);
    else if (operator === "$ne") where.add(`${field} is distinct from ?::jsonb`, text);
    else if (operator === "$in") where.add(`?::jsonb @> (${field})`, text);
    else if (operator === "$nin") where.add(`(${field} is null or not ?::jsonb @> (${field}))`, text);
    else
      where.add(`(jsonb_typeof(${field}) = jsonb_typeof(?::jsonb) and ${field} ${operators[operator]} ?::jsonb)`, text);
  }
}

function isOperators(value: unknown): value is Record<string, unknown> {
  const known = ["$eq", "$ne", "$in", "$nin", ...Object.keys(operators)];
  const keys = typeof value === "object" && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
  return keys.length > 0 && keys.every((key) => known.includes(key));
}

function matches({ matchType, path }: MatchCondition, namespace: string[]): boolean {
  if (path.length > namespace.length) return false;
  const start = matchType === "prefix" ? 0 : namespace.length - path.length;
  return path.every((label, index) => label === "*" || namespace[start + index] === label);
}

const itemOf = ({ path, key, value, created_at, updated_at }: Row): Item => ({
  namespace: namespaceOf(path),
  key: JSON.parse(key),
  value,
  createdAt: created_at,
  updatedAt: updated_at,
});
