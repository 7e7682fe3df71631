import { createRequire } from "node:module";
import type { AuthContext, AuthFilters } from "@langchain/langgraph-api/auth";
import type { startServer } from "@langchain/langgraph-api/server";
import type { Ops, RunsRepo, ThreadsRepo, ThreadsStateRepo } from "@langchain/langgraph-api/storage";
import type { BaseCheckpointSaver, BaseStore } from "@langchain/langgraph-checkpoint";

/** Parts of the stock server that its package does not export. They are read from the files of the installed version. */
export interface Stock {
  startServer: typeof startServer;
  /** The checkpointer that the server gives to every graph. */
  checkpointer: BaseCheckpointSaver & { initialize(cwd: string): Promise<unknown> };
  /** The store that the server gives to every graph and that answers the store routes. */
  store: BaseStore & { initialize(cwd: string): Promise<unknown> };
  /** The state operations of the file engine, which read threads through `threads` and runs through `connection`. */
  State: new (
    connection: StateConnection,
    threads: ThreadsRepo,
  ) => ThreadsStateRepo;
  /** The loaded graphs by id. */
  graphs: Record<string, unknown>;
  systemAssistantIdOf(graphId: string): string;
  handleAuthEvent<T>(auth: AuthContext | undefined, event: string, value: T): Promise<[AuthFilters | undefined, T]>;
  isAuthMatching(metadata: Record<string, unknown> | undefined, filters: AuthFilters): boolean;
  serialiseAsDict(value: unknown): string | undefined;
  serializeError(error: unknown): { error: string; message: string };
  newId(): string;
  /** Reads a file of the file engine. */
  deserialize(text: string): Promise<unknown>;
  /** Returns the text of a file of the file engine. */
  serialize(data: unknown): string;
  logger: { info: Log; warn: Log; error: Log };
  HttpError: new (status: number, options?: { message?: string }) => Error;
  Hono: new () => HonoApp;
}

type Log = (message: string, fields?: Record<string, unknown>) => void;

/** What the state operations of the file engine read and write. */
export interface StateConnection {
  with<T>(act: (data: StateData) => Promise<T> | T): Promise<T>;
}

export interface StateData {
  runs: Record<string, { thread_id: string; status: string }>;
  threads: Record<string, { thread_id: string; values?: unknown }>;
}

/** The part of a Hono app that the cron routes use. */
export interface HonoApp {
  get(path: string, handler: HonoHandler): void;
  post(path: string, handler: HonoHandler): void;
  patch(path: string, handler: HonoHandler): void;
  delete(path: string, handler: HonoHandler): void;
  route(path: string, app: unknown): void;
}

type HonoHandler = (context: HonoContext) => Promise<Response>;

export interface HonoContext {
  req: { param(name: string): string; json(): Promise<unknown>; raw: Request };
  var: { auth?: AuthContext };
  json(value: unknown, status?: number): Response;
  body(value: null, status: number): Response;
}

export type { AuthContext, AuthFilters, Ops, RunsRepo, ThreadsRepo };

/** Loads the stock server. @throws when its version keeps its storage elsewhere. */
export async function loadStock(serverUrl = import.meta.resolve("@langchain/langgraph-api/server")): Promise<Stock> {
  const require = createRequire(serverUrl);
  const { version } = require("../package.json") as { version: string };
  const part = (file: string) => import(new URL(file, serverUrl).href);
  try {
    // Copies for `require` serve as well: the server recognizes errors and apps by their properties, not by their class.
    const exception = require("hono/http-exception");
    const hono = require("hono");
    const uuid = require("@langchain/core/utils/uuid");
    const [server, checkpoint, store, ops, persist, auth, load, serde, logging] = await Promise.all([
      part("./server.mjs"),
      part("./storage/checkpoint.mjs"),
      part("./storage/store.mjs"),
      part("./storage/ops.mjs"),
      part("./storage/persist.mjs"),
      part("./auth/index.mjs"),
      part("./graph/load.mjs"),
      part("./utils/serde.mjs"),
      part("./logging.mjs"),
    ]);
    return {
      startServer: server.startServer,
      checkpointer: checkpoint.checkpointer,
      store: store.store,
      State: ops.FileSystemThreads.State,
      graphs: load.GRAPHS,
      systemAssistantIdOf: (graphId) => uuid.v5(graphId, load.NAMESPACE_GRAPH),
      handleAuthEvent: auth.handleAuthEvent,
      isAuthMatching: auth.isAuthMatching,
      serialiseAsDict: serde.serialiseAsDict,
      serializeError: serde.serializeError,
      newId: () => uuid.v7(),
      deserialize: persist.deserialize,
      serialize: persist.serialize,
      logger: logging.logger,
      HttpError: exception.HTTPException,
      Hono: hono.Hono,
    };
  } catch (error) {
    throw new Error(`@langchain/langgraph-api ${version} does not fit: this engine needs 1.5`, { cause: error });
  }
}
