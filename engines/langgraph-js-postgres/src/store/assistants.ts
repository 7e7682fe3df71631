import type { Assistant, AssistantsRepo, AssistantVersion } from "@langchain/langgraph-api/storage";
import { copyForEachRequest } from "../graphs.ts";
import type { AuthContext, AuthFilters, Stock } from "../stock.ts";
import { Conditions, order } from "./conditions.ts";
import type { Database, Query } from "./database.ts";
import { deleteRuns, deleteThreads } from "./deletions.ts";
import { exact, plainText, searchable } from "./json.ts";

const columns = `assistant_id, graph_id, name, description, version, config, context, metadata, created_at, updated_at`;
const sortable = ["assistant_id", "created_at", "updated_at", "name", "graph_id"];

/** The assistants and their versions. */
export class Assistants implements AssistantsRepo {
  readonly #database: Database;
  readonly #stock: Stock;

  constructor(database: Database, stock: Stock) {
    this.#database = database;
    this.#stock = stock;
  }

  async *search(
    options: Parameters<AssistantsRepo["search"]>[0],
    auth: AuthContext | undefined,
  ): AsyncGenerator<{ assistant: Assistant; total: number }> {
    const { graph_id, metadata, limit, offset } = options;
    const [filters] = await this.#stock.handleAuthEvent(auth, "assistants:search", {
      graph_id,
      metadata,
      limit,
      offset,
    });
    const where = conditionsOf(options, filters);
    const rows = await this.#database.query<Assistant & { total: string }>(
      `select ${columns}, count(*) over () as total from @assistants where ${where}
       ${order(options.sort_by, options.sort_order, sortable, "assistant_id")}
       limit ${where.parameter(limit)} offset ${where.parameter(offset)}`,
      where.values,
    );
    for (const { total, ...assistant } of rows) yield { assistant, total: Number(total) };
  }

  async count(options: Parameters<AssistantsRepo["count"]>[0], auth: AuthContext | undefined): Promise<number> {
    const { graph_id, metadata } = options;
    const value = { graph_id, metadata, limit: 0, offset: 0 };
    const [filters] = await this.#stock.handleAuthEvent(auth, "assistants:search", value);
    const where = conditionsOf(options, filters);
    const [row] = await this.#database.query<{ n: string }>(
      `select count(*) as n from @assistants where ${where}`,
      where.values,
    );
    return Number(row?.n);
  }

  async get(assistant_id: string, auth: AuthContext | undefined): Promise<Assistant> {
    const [filters] = await this.#stock.handleAuthEvent(auth, "assistants:read", { assistant_id });
    return this.#find(this.#database.query, assistant_id, filters);
  }

  async put(
    assistant_id: string,
    options: Parameters<AssistantsRepo["put"]>[1],
    auth: AuthContext | undefined,
  ): Promise<Assistant> {
    const { config, context, graph_id, if_exists, name, description } = options;
    // The server stores the assistant of a graph right after it has loaded the graph.
    copyForEachRequest(this.#stock.graphs, graph_id);
    const value = { assistant_id, config, context, graph_id, metadata: options.metadata, if_exists, name, description };
    const [filters, { metadata }] = await this.#stock.handleAuthEvent(auth, "assistants:create", value);
    const made = await this.#database.transaction(async (query) => {
      const [row] = await query<Assistant>(
        `insert into @assistants (assistant_id, graph_id, name, description, version, config, context, metadata, search)
         values ($1, $2, $3, $4, 1, $5, $6, $7, $8) on conflict do nothing returning ${columns}`,
        [
          plainText(assistant_id),
          plainText(graph_id),
          plainText(name || graph_id),
          description == null ? null : plainText(description),
          exact(config ?? {}),
          exact(context ?? {}),
          exact(metadata ?? {}),
          searchable(metadata ?? {}),
        ],
      );
      if (row !== undefined) await addVersion(query, assistant_id);
      return row;
    });
    if (made !== undefined) return made;
    const [existing] = await this.#database.query<Assistant>(
      `select ${columns} from @assistants where assistant_id = $1`,
      [assistant_id],
    );
    if (existing === undefined || if_exists === "raise" || !this.#stock.isAuthMatching(existing.metadata, filters))
      throw new this.#stock.HttpError(409, { message: "Assistant already exists" });
    return existing;
  }

  async patch(
    assistant_id: string,
    options: Parameters<AssistantsRepo["patch"]>[1],
    auth: AuthContext | undefined,
  ): Promise<Assistant> {
    const { graph_id, config, context, name, description } = options;
    const value = { assistant_id, graph_id, config, metadata: options.metadata, name, description };
    const [filters, { metadata }] = await this.#stock.handleAuthEvent(auth, "assistants:update", value);
    return this.#database.transaction(async (query) => {
      const found = await this.#find(query, assistant_id, filters, "for update");
      const changed = { ...found.metadata, ...metadata };
      const [row] = await query<Assistant>(
        `update @assistants set graph_id = coalesce($2, graph_id), config = coalesce($3, config), context = coalesce($4, context),
           name = coalesce($5, name), description = coalesce($6, description), metadata = $7, search = $8, updated_at = now(),
           version = 1 + (select max(version) from @assistant_versions where assistant_id = $1)
         where assistant_id = $1 returning ${columns}`,
        [
          assistant_id,
          graph_id ?? null,
          config == null ? null : exact(config),
          context == null ? null : exact(context),
          name == null ? null : plainText(name),
          description == null ? null : plainText(description),
          exact(changed),
          searchable(changed),
        ],
      );
      await addVersion(query, assistant_id);
      return row as Assistant;
    });
  }

  async delete(assistant_id: string, withThreads: boolean, auth: AuthContext | undefined): Promise<string[]> {
    const [filters] = await this.#stock.handleAuthEvent(auth, "assistants:delete", { assistant_id });
    return this.#database.transaction(async (query) => {
      await this.#find(query, assistant_id, filters, "for update");
      if (withThreads) {
        const metadata = searchable({ assistant_id });
        const rows = await query<{ thread_id: string }>("select thread_id from @threads where search @> $1", [
          metadata,
        ]);
        await deleteThreads(
          query,
          this.#database.schema,
          rows.map((row) => row.thread_id),
        );
      }
      await deleteRuns(query, this.#database.schema, new Conditions().add("assistant_id = ?", assistant_id));
      await query("delete from @assistants where assistant_id = $1", [assistant_id]);
      return [assistant_id];
    });
  }

  async setLatest(assistant_id: string, version: number, auth: AuthContext | undefined): Promise<Assistant> {
    const [filters] = await this.#stock.handleAuthEvent(auth, "assistants:update", { assistant_id, version });
    return this.#database.transaction(async (query) => {
      await this.#find(query, assistant_id, filters, "for update");
      const [row] = await query<Assistant>(
        `update @assistants a set config = v.config, metadata = v.metadata, search = v.search, version = v.version, name = v.name,
           updated_at = now()
         from @assistant_versions v where a.assistant_id = $1 and v.assistant_id = $1 and v.version = $2
         returning ${columns.replace(/\w+/g, "a.$&")}`,
        [assistant_id, version],
      );
      if (row === undefined) throw new this.#stock.HttpError(404, { message: "Assistant version not found" });
      return row;
    });
  }

  async getVersions(
    assistant_id: string,
    options: Parameters<AssistantsRepo["getVersions"]>[1],
    auth: AuthContext | undefined,
  ): Promise<AssistantVersion[]> {
    const [filters] = await this.#stock.handleAuthEvent(auth, "assistants:read", { assistant_id });
    const where = new Conditions().add("assistant_id = ?", assistant_id).contains("search", options.metadata);
    where.allowed("search", filters);
    return this.#database.query<AssistantVersion>(
      `select assistant_id, version, graph_id, config, context, metadata, created_at, name, description
       from @assistant_versions where ${where} order by version desc
       limit ${where.parameter(options.limit)} offset ${where.parameter(options.offset)}`,
      where.values,
    );
  }

  async #find(query: Query, id: string, filters: AuthFilters, lock = ""): Promise<Assistant> {
    const [row] = await query<Assistant>(`select ${columns} from @assistants where assistant_id = $1 ${lock}`, [
      plainText(id),
    ]);
    if (row === undefined || !this.#stock.isAuthMatching(row.metadata, filters))
      throw new this.#stock.HttpError(404, { message: "Assistant not found" });
    return row;
  }
}

function conditionsOf(
  options: { graph_id?: string; name?: string; metadata?: Record<string, unknown> },
  filters: AuthFilters,
): Conditions {
  return new Conditions()
    .add("graph_id = ?", options.graph_id)
    .add("strpos(lower(name), lower(?)) > 0", options.name)
    .contains("search", options.metadata)
    .allowed("search", filters);
}

const addVersion = (query: Query, id: string) =>
  query(
    `insert into @assistant_versions
       (assistant_id, version, graph_id, name, description, config, context, metadata, search, created_at)
     select assistant_id, version, graph_id, name, description, config, context, metadata, search, updated_at
     from @assistants where assistant_id = $1`,
    [id],
  );
