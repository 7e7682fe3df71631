import type { Executions } from "./runs/executions.ts";
import type { HonoApp, HonoContext } from "./stock.ts";
import type { Database } from "./store/database.ts";
import { type QueueState, readQueue } from "./store/queue.ts";

interface Workers {
  max: number;
  active: number;
}

/**
 * The metrics of the queue, with the path, the JSON form and the names of the LangGraph server in Python. The runs are those of
 * all replicas, the workers those of this one.
 */
export class Metrics {
  readonly #database: Database;
  readonly #executions: Executions;

  constructor(database: Database, executions: Executions) {
    this.#database = database;
    this.#executions = executions;
  }

  /** Adds `GET /metrics` to an app. Routes that the app has already win. */
  addRoute(app: HonoApp, workersMax: number): void {
    app.get("/metrics", async (context: HonoContext) => {
      const queue = await readQueue(this.#database.query);
      const workers = { max: workersMax, active: Math.min(workersMax, this.#executions.size) };
      const asJson = new URL(context.req.raw.url).searchParams.get("format") === "json";
      return asJson ? context.json(jsonOf(queue, workers)) : new Response(textOf(queue, workers), { headers });
    });
  }
}

const headers = { "content-type": "text/plain; version=0.0.4; charset=utf-8" };

const jsonOf = (queue: QueueState, { max, active }: Workers) => ({
  workers: { max, active, available: max - active },
  queue: {
    n_pending: queue.pending,
    n_running: queue.running,
    pending_runs_wait_time_max_secs: queue.waitSeconds,
    n_failed: queue.failed,
    n_recovered: queue.recovered,
    n_input_tokens: queue.inputTokens,
    n_output_tokens: queue.outputTokens,
    next_due_secs: queue.nextDueSeconds,
  },
});

function textOf(queue: QueueState, { max, active }: Workers): string {
  const families = [
    ["workers_max", "gauge", "Workers of this replica.", max],
    ["workers_active", "gauge", "Workers of this replica with a run.", active],
    ["workers_available", "gauge", "Workers of this replica without a run.", max - active],
    ["num_pending_runs", "gauge", "Runs that wait for a worker.", queue.pending],
    ["num_running_runs", "gauge", "Runs in progress.", queue.running],
    ["pending_runs_wait_time_max", "gauge", "Seconds that the oldest pending run has waited.", queue.waitSeconds],
    ["failed_runs_total", "counter", "Runs that ended with an error.", queue.failed],
    ["recovered_runs_total", "counter", "Runs that another replica continued after theirs died.", queue.recovered],
    ["input_tokens_total", "counter", "Tokens that runs sent to models, as the models reported.", queue.inputTokens],
    ["output_tokens_total", "counter", "Tokens that models answered, likewise.", queue.outputTokens],
  ] as const;
  return families
    .filter(([, , , value]) => value !== null)
    .map(([name, type, help, value]) => {
      const full = `lg_api_${name}`;
      return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${full} ${value}\n`;
    })
    .join("");
}
