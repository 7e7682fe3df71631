import path from "node:path";
import { pathToFileURL } from "node:url";
import type { startServer } from "@langchain/langgraph-api/server";
import { appFile, setApp } from "./cron-app.ts";
import { createEngine, type Engine } from "./engine.ts";
import type { EngineOptions } from "./settings.ts";

type ServerOptions = Parameters<typeof startServer>[0];

export interface Server {
  /** Address and port on which the server listens. */
  host: string;
  /** Takes no more runs, and gives those that do not end in time to other replicas. Requests are still answered. */
  handOver(): Promise<void>;
  /** Hands over the running runs and closes connections and server. */
  close(): Promise<void>;
}

/**
 * Starts the stock LangGraph.js server on PostgreSQL.
 * @param server options of `startServer` of `@langchain/langgraph-api/server`.
 * @param options of the engine. With `closeOnSignals: false` the caller handles SIGTERM and SIGINT.
 */
export async function serve(
  server: ServerOptions,
  { closeOnSignals = true, ...options }: EngineOptions & { closeOnSignals?: boolean },
): Promise<Server> {
  const engine = await createEngine(options);
  const role = options.role ?? "all";
  const nWorkers = role === "api" ? 0 : server.nWorkers;
  setApp(await appOf(engine, { ...server, nWorkers }));
  const http = { ...server.http, app: appFile, ...(role === "worker" && withoutRoutes) } as NonNullable<
    ServerOptions["http"]
  >;
  const started = await engine.stock
    .startServer({ ...server, http, nWorkers }, { ops: engine.ops })
    .catch(async (error) => {
      await engine.close();
      throw error;
    });
  const close = async () => {
    await engine.handOver();
    await started.cleanup();
    await engine.close();
  };
  if (closeOnSignals) {
    for (const name of ["SIGTERM", "SIGINT"] as const) {
      process.once(name, () => {
        close()
          .catch((error: unknown) => engine.stock.logger.error("server not closed cleanly", { error }))
          .finally(() => process.exit(0));
      });
    }
  }
  return { host: started.host, handOver: engine.handOver, close };
}

const withoutRoutes = {
  disable_assistants: true,
  disable_runs: true,
  disable_store: true,
  disable_threads: true,
};

/** Returns the cron routes, the custom app of the project behind them, and the metrics last. */
async function appOf(engine: Engine, { http, cwd, nWorkers }: ServerOptions) {
  const app = new engine.stock.Hono();
  if (!http?.disable_runs) engine.addRoutes(app);
  if (http?.app !== undefined) {
    const [file = "", name = "default"] = http.app.split(":", 2);
    const module = await import(pathToFileURL(path.resolve(cwd, file)).href);
    if (module[name] === undefined) throw new Error(`http.app: ${file} exports no ${name}`);
    app.route("/", module[name]);
  }
  if (!http?.disable_meta) engine.addMetrics(app, nWorkers);
  return app;
}
