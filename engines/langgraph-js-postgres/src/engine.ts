import type { Ops } from "@langchain/langgraph-api/storage";
import { Background } from "./background.ts";
import { Crons } from "./crons.ts";
import { Metrics } from "./metrics.ts";
import { Dispatcher } from "./runs/dispatcher.ts";
import { Executions } from "./runs/executions.ts";
import { Runs } from "./runs/runs.ts";
import { WakeUps } from "./runs/wake-ups.ts";
import { type EngineOptions, readSettings } from "./settings.ts";
import type { HonoApp, Stock } from "./stock.ts";
import { loadStock } from "./stock.ts";
import { Assistants } from "./store/assistants.ts";
import { installCheckpointer, migrateCheckpoints } from "./store/checkpoints.ts";
import { openDatabase } from "./store/database.ts";
import { importFiles } from "./store/import-files.ts";
import { installStore } from "./store/items.ts";
import { migrate } from "./store/migrations.ts";
import { Signals } from "./store/signals.ts";
import { Threads } from "./store/threads.ts";
import { truncate } from "./store/truncate.ts";

export interface Engine {
  /** The storage of the stock server: `startServer(options, { ops })`. */
  ops: Ops;
  /** The stock server that the engine was made for. */
  stock: Stock;
  /** Adds the cron routes to a Hono app. */
  addRoutes(app: HonoApp): void;
  /** Adds `GET /metrics`. Add it after the routes of the project, which may have one of their own. */
  addMetrics(app: HonoApp, workers: number): void;
  /** Takes no more runs, and gives those that do not end in time to other replicas. Requests are still answered. */
  handOver(): Promise<void>;
  /** Hands over the running runs and closes all connections. */
  close(): Promise<void>;
}

/**
 * Opens the database, brings its schema up to date, and lets checkpointer and store of the stock server in this process work
 * on it. A process has one engine, because the stock server has one checkpointer and one store.
 */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  const settings = readSettings(options);
  const stock = await loadStock(settings.serverUrl);
  const report = (error: Error) => stock.logger.warn("database connection lost", { error: error.message });
  const database = openDatabase(settings, report);
  const signals = new Signals(database, settings, report);
  try {
    await migrate(database, (query) => migrateCheckpoints(query, settings.schema));
    if (settings.importFrom !== undefined) {
      const counts = await importFiles(database, stock, settings.importFrom);
      if (counts !== undefined) stock.logger.info("state of the file engine copied", { ...counts });
      if (counts !== undefined && counts.kept > 0)
        stock.logger.warn("threads not copied because they went on in the database, too", { threads: counts.kept });
    }
    await signals.open();
  } catch (error) {
    await Promise.all([signals.close(), database.close()]);
    throw error;
  }
  const executions = new Executions(database, signals, stock, settings);
  const dispatcher = new Dispatcher(database.query, signals, executions, stock, settings);
  const runs = new Runs(database, stock, settings, executions, dispatcher, new WakeUps(signals));
  const crons = new Crons(database, stock, runs);
  const background = new Background({ database, stock, settings, crons, executions });
  installCheckpointer(database, stock, executions);
  installStore(database, stock);
  executions.start();
  background.start();
  const handOver = once(async () => {
    dispatcher.close();
    await executions.handOver(settings.handoverMs);
  });
  return {
    stock,
    ops: {
      assistants: new Assistants(database, stock),
      threads: new Threads(database, stock, executions),
      runs,
      truncate: (flags) => truncate(database, flags),
    },
    addRoutes: (app) => crons.addRoutes(app),
    addMetrics: (app, workers) => new Metrics(database, executions).addRoute(app, workers),
    handOver,
    close: once(async () => {
      await handOver();
      await background.close();
      await Promise.all([signals.close(), database.close()]);
    }),
  };
}

/** Returns a function that calls `act` once and returns the same promise to every caller. */
function once(act: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => {
    done ??= act();
    return done;
  };
}
