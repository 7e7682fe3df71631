import { existsSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

/** The used part of `engines/langgraph-js-postgres`. */
interface EngineModule {
  serve(
    server: object,
    options: {
      connectionString: string;
      schema: string;
      importFrom: string;
      serverUrl: string;
      handoverMs: number;
      lossesMax: number;
      maxConnections: number;
      closeOnSignals: boolean;
    },
  ): Promise<{ host: string; handOver(): Promise<void>; close(): Promise<void> }>;
}

/** Longest wait for runs to end before other replicas continue them. */
const handoverMsMax = 10_000;

/** Ten replicas, old and new ones of a rollout, fit into the 100 connections of a database: each has one more, for signals. */
const connectionsPerReplica = 4;

/**
 * Starts the LangGraph.js server on the deployment's PostgreSQL.
 * @param engineDir directory of the compiled engine, inside of the toolchain
 * @param serverModule file that `@langchain/langgraph-api/server` resolves to
 */
export async function startOnPostgres(
  engineDir: string,
  serverModule: string,
  given: {
    server: object;
    connectionString: string;
    schema: string;
    stateDir: string;
    drainTimeoutMs: number;
    /** `BG_JOB_MAX_RETRIES`, contract 7.2. */
    retries: string | undefined;
  },
): Promise<{ host: string; handOver(): Promise<void>; cleanup(): Promise<void> }> {
  const file = path.join(engineDir, "serve.js");
  if (!existsSync(file)) throw new Error(`the engine on PostgreSQL is missing: ${file}. Build the revision again.`);
  const { serve } = (await import(pathToFileURL(file).href)) as EngineModule;
  const { host, handOver, close } = await serve(given.server, {
    connectionString: given.connectionString,
    schema: given.schema,
    // An earlier revision may have kept its state in files. It has stopped before this one starts.
    importFrom: given.stateDir,
    serverUrl: pathToFileURL(serverModule).href,
    handoverMs: Math.min(handoverMsMax, Math.floor(given.drainTimeoutMs / 2)),
    lossesMax: 1 + retriesOf(given.retries),
    maxConnections: connectionsPerReplica,
    closeOnSignals: false,
  });
  return { host, handOver, cleanup: close };
}

/** Returns how often a lost run starts again without a new checkpoint. Other text than a small number: the default. */
const retriesOf = (text: string | undefined) => (/^\d{1,2}$/.test(text ?? "") ? Number(text) : 3);
