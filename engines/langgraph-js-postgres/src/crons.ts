import type { RunKwargs } from "@langchain/langgraph-api/storage";
import { Cron as Schedule } from "croner";
import type { Runs } from "./runs/runs.ts";
import type { AuthContext, HonoApp, HonoContext, Stock } from "./stock.ts";
import * as rows from "./store/crons.ts";
import type { Database } from "./store/database.ts";
import { cancelRun } from "./store/runs.ts";

type Body = Record<string, unknown>;
type RunStrategy = "reject" | "enqueue" | "interrupt" | "rollback";

/** Fields of a request that become the run, as the run routes read them. */
const payloadFields = [
  "input",
  "config",
  "context",
  "webhook",
  "interrupt_before",
  "interrupt_after",
  "multitask_strategy",
].concat("stream_mode", "stream_subgraphs", "stream_resumable", "metadata");

/** How long a cron that failed for a passing cause, such as a lost connection, is tried again. */
const retriedMs = 60_000;

/** The cron routes, which the stock server lacks, and the clock that fires crons. */
export class Crons {
  readonly #database: Database;
  readonly #stock: Stock;
  readonly #runs: Runs;

  constructor(database: Database, stock: Stock, runs: Runs) {
    this.#database = database;
    this.#stock = stock;
    this.#runs = runs;
  }

  /** Adds the cron routes to an app that the stock server mounts before its own. */
  addRoutes(app: HonoApp): void {
    app.post("/runs/crons", (context) => this.#create(context, undefined));
    app.post("/threads/:thread_id/runs/crons", (context) => this.#create(context, context.req.param("thread_id")));
    app.post("/runs/crons/search", (context) => this.#search(context));
    app.post("/runs/crons/count", (context) => this.#count(context));
    app.patch("/runs/crons/:cron_id", (context) => this.#update(context));
    app.delete("/runs/crons/:cron_id", (context) => this.#delete(context));
  }

  /** Fires the crons that are due. Any number of replicas may call it at once. */
  async fireDue(): Promise<void> {
    for (const cron of await rows.dueCrons(this.#database.query)) {
      try {
        await this.#fire(cron);
      } catch (error) {
        this.#stock.logger.error("cron not fired", { cron_id: cron.cron_id, error });
        const isRefused = ((error as { status?: number }).status ?? 500) < 500;
        if (!isRefused && Date.now() - (cron.next_run_date?.getTime() ?? 0) < retriedMs) continue;
        // The next time, instead of the same failure every second.
        await rows.fire(this.#database, cron, this.#nextOrNever(cron), async () => {});
      }
    }
  }

  async #fire(cron: rows.DueCron): Promise<void> {
    const strategy = (cron.payload["multitask_strategy"] as RunStrategy | undefined) ?? "enqueue";
    const runId = this.#stock.newId();
    const prepared = await this.#runs.prepare(
      runId,
      cron.assistant_id,
      this.#kwargsOf(cron),
      {
        ...(cron.thread_id !== null && { threadId: cron.thread_id }),
        ...(cron.user_id !== null && { userId: cron.user_id }),
        metadata: { ...cron.metadata, cron_id: cron.cron_id },
        status: "pending",
        multitaskStrategy: strategy,
        preventInsertInInflight: strategy === "reject",
      },
      cron.auth ?? undefined,
    );
    await rows.fire(this.#database, cron, this.#nextOf(cron, cron.next_run_date), async (query) => {
      const [first, ...inflight] = await prepared(query);
      if (first?.run_id !== runId || (strategy !== "interrupt" && strategy !== "rollback")) return;
      for (const run of inflight) await cancelRun(query, this.#database.schema, run, strategy);
    });
  }

  #kwargsOf({ payload, thread_id, on_run_completed, auth }: rows.DueCron): RunKwargs {
    const { input, context, webhook, interrupt_before, interrupt_after, stream_mode } = payload as RunKwargs;
    const config = structuredClone(payload["config"] ?? {}) as NonNullable<RunKwargs["config"]>;
    if (auth !== null) {
      config.configurable = {
        ...config.configurable,
        langgraph_auth_user: auth.user,
        langgraph_auth_user_id: auth.user.identity,
        langgraph_auth_permissions: auth.scopes,
      };
    }
    return {
      input,
      context,
      config,
      ...(webhook !== undefined && { webhook }),
      ...(interrupt_before !== undefined && { interrupt_before }),
      ...(interrupt_after !== undefined && { interrupt_after }),
      stream_mode: [stream_mode ?? "values"].flat() as NonNullable<RunKwargs["stream_mode"]>,
      temporary: thread_id === null && on_run_completed === "delete",
      subgraphs: payload["stream_subgraphs"] === true,
      resumable: payload["stream_resumable"] === true,
    };
  }

  async #create(context: HonoContext, threadId: string | undefined): Promise<Response> {
    const body = await this.#bodyOf(context);
    const { auth } = context.var;
    if (threadId !== undefined) await this.#mayUseThread(threadId, auth);
    const assistantId = this.#text(body, "assistant_id");
    const assistant = Object.hasOwn(this.#stock.graphs, assistantId)
      ? this.#stock.systemAssistantIdOf(assistantId)
      : assistantId;
    const value = { ...body, thread_id: threadId, assistant_id: assistant, metadata: (body["metadata"] ?? {}) as Body };
    const [, { metadata }] = await this.#stock.handleAuthEvent(auth, "crons:create", value);
    const cron: rows.NewCron = {
      cron_id: this.#stock.newId(),
      assistant_id: assistant,
      thread_id: threadId ?? null,
      on_run_completed: body["on_run_completed"] === "keep" ? "keep" : "delete",
      end_time: this.#time(body["end_time"]),
      schedule: this.#text(body, "schedule"),
      timezone: body["timezone"] === undefined ? null : this.#text(body, "timezone"),
      payload: payloadOf(body),
      user_id: auth?.user.identity ?? null,
      next_run_date: null,
      metadata,
      enabled: body["enabled"] !== false,
    };
    cron.next_run_date = this.#nextOf(cron);
    return context.json(await this.#stored(rows.insertCron(this.#database.query, cron, auth)));
  }

  async #update(context: HonoContext): Promise<Response> {
    const body = await this.#bodyOf(context);
    const id = context.req.param("cron_id");
    const [filters, { metadata }] = await this.#stock.handleAuthEvent(context.var.auth, "crons:update", {
      ...body,
      cron_id: id,
      metadata: body["metadata"] as Body | undefined,
    });
    const changed = await this.#database.transaction(async (query) => {
      const cron = await rows.findCron(query, id, "for update");
      if (cron === undefined || !this.#stock.isAuthMatching(cron.metadata, filters)) throw this.#missing();
      cron.payload = { ...cron.payload, ...payloadOf(body) };
      if (metadata !== undefined) cron.metadata = { ...cron.metadata, ...metadata };
      if (body["schedule"] !== undefined) cron.schedule = this.#text(body, "schedule");
      if (body["timezone"] !== undefined) cron.timezone = this.#text(body, "timezone");
      if (body["end_time"] !== undefined) cron.end_time = this.#time(body["end_time"]);
      if (body["enabled"] !== undefined) cron.enabled = body["enabled"] === true;
      if (body["on_run_completed"] !== undefined)
        cron.on_run_completed = body["on_run_completed"] === "keep" ? "keep" : "delete";
      cron.next_run_date = this.#nextOf(cron);
      return rows.updateCron(query, cron);
    });
    return context.json(changed);
  }

  async #delete(context: HonoContext): Promise<Response> {
    const id = context.req.param("cron_id");
    const [filters] = await this.#stock.handleAuthEvent(context.var.auth, "crons:delete", { cron_id: id });
    const cron = await rows.findCron(this.#database.query, id);
    if (cron === undefined || !this.#stock.isAuthMatching(cron.metadata, filters)) throw this.#missing();
    await rows.deleteCron(this.#database.query, id);
    return context.body(null, 204);
  }

  async #search(context: HonoContext): Promise<Response> {
    const body = await this.#bodyOf(context);
    const [filters] = await this.#stock.handleAuthEvent(context.var.auth, "crons:search", { ...body });
    const limit = boundOf(body["limit"], 10, 1_000);
    const offset = boundOf(body["offset"], 0, 1_000_000);
    return context.json(await rows.searchCrons(this.#database.query, filterOf(body), filters, limit, offset));
  }

  async #count(context: HonoContext): Promise<Response> {
    const body = await this.#bodyOf(context);
    const [filters] = await this.#stock.handleAuthEvent(context.var.auth, "crons:search", { ...body });
    return context.json(await rows.countCrons(this.#database.query, filterOf(body), filters));
  }

  async #mayUseThread(threadId: string, auth: AuthContext | undefined): Promise<void> {
    const [filters] = await this.#stock.handleAuthEvent(auth, "threads:update", { thread_id: threadId });
    const thread = await this.#runs.findThread(threadId);
    if (thread === undefined || !this.#stock.isAuthMatching(thread.metadata, filters))
      throw new this.#stock.HttpError(404, { message: `Thread with ID ${threadId} not found` });
  }

  /** A schedule that does not parse any more must not keep the other crons from firing. */
  #nextOrNever(cron: rows.DueCron): Date | null {
    try {
      return this.#nextOf(cron, cron.next_run_date);
    } catch {
      return null;
    }
  }

  /**
   * Returns the next time of a cron; null after its end.
   * @param fired The time that is due now. The database decides that, and its clock may be ahead of the process.
   * @throws 422 for a schedule or timezone that does not parse.
   */
  #nextOf(cron: Pick<rows.Cron, "schedule" | "timezone" | "end_time">, fired: Date | null = null): Date | null {
    try {
      const next = new Schedule(cron.schedule, {
        timezone: cron.timezone ?? "UTC",
        paused: true,
        mode: "5-part",
      }).nextRun(new Date(Math.max(Date.now(), fired?.getTime() ?? 0)));
      return next === null || (cron.end_time !== null && next > cron.end_time) ? null : next;
    } catch (error) {
      const message = `schedule ${JSON.stringify(cron.schedule)} or its timezone is invalid: ${(error as Error).message}`;
      throw new this.#stock.HttpError(422, { message });
    }
  }

  async #stored(cron: Promise<rows.Cron>): Promise<rows.Cron> {
    return cron.catch((error: { code?: string }) => {
      if (error.code === "23503") throw new this.#stock.HttpError(404, { message: "Assistant not found" });
      throw error;
    });
  }

  async #bodyOf(context: HonoContext): Promise<Body> {
    const body = await context.req.json().catch(() => undefined);
    if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Body;
    throw new this.#stock.HttpError(422, { message: "the body must be a JSON object" });
  }

  #text(body: Body, field: string): string {
    const value = body[field];
    if (typeof value === "string" && value !== "") return value;
    throw new this.#stock.HttpError(422, { message: `${field} is missing: give a text` });
  }

  #time(value: unknown): Date | null {
    if (value === undefined || value === null) return null;
    const time = new Date(String(value));
    if (Number.isNaN(time.getTime()))
      throw new this.#stock.HttpError(422, { message: "end_time must be an ISO 8601 time" });
    return time;
  }

  #missing(): Error {
    return new this.#stock.HttpError(404, { message: "Cron not found" });
  }
}

/** Takes the fields of the run. A request cannot choose the user that its graph sees: that is the user who made the cron. */
function payloadOf(body: Body): Body {
  const payload = Object.fromEntries(
    payloadFields.filter((name) => body[name] !== undefined).map((name) => [name, body[name]]),
  );
  const config = payload["config"] as { configurable?: Body } | undefined;
  if (config?.configurable !== undefined) {
    const allowed = Object.entries(config.configurable).filter(([key]) => !/^(langgraph_auth|user_id$|__)/.test(key));
    payload["config"] = { ...config, configurable: Object.fromEntries(allowed) };
  }
  return payload;
}

function filterOf(body: Body): rows.CronFilter {
  const text = (name: string) => (typeof body[name] === "string" ? (body[name] as string) : undefined);
  const filter = {
    assistantId: text("assistant_id"),
    threadId: text("thread_id"),
    enabled: typeof body["enabled"] === "boolean" ? body["enabled"] : undefined,
    metadata: (body["metadata"] ?? undefined) as Body | undefined,
    sortBy: text("sort_by"),
    sortOrder: text("sort_order"),
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

const boundOf = (value: unknown, fallback: number, most: number) =>
  typeof value === "number" && Number.isInteger(value) && value >= 0 ? Math.min(value, most) : fallback;
