import type { Deployment } from "../contract/deployments/deployment.ts";
import type { Detection } from "../contract/detections/detection.ts";
import type { LogEntry } from "../contract/logs/log.ts";
import type { FoundLogEntry } from "../contract/logs/search.ts";
import type { Revision } from "../contract/revisions/revision.ts";
import type { UploadReceipt } from "../contract/revisions/upload.ts";
import { clientRoutes, type Route, routeOf } from "../contract/routes.ts";
import type { ClientOperations, Input, ItemOf, ListId, ListInput, Output } from "./calls.ts";
import { tagOf } from "./etags.ts";
import { type CallTrace, exchange, openStream, type SendOnce, type StreamRequest, type Transport } from "./exchange.ts";
import type { FollowLogs, FollowOptions } from "./follow.ts";
import type { FollowSearch, FollowSearchOptions } from "./follow-search.ts";
import type { Page } from "./pages.ts";
import type { WaitOptions } from "./wait.ts";
import type { OpenStream, Watched, WatchQuery } from "./watch.ts";

export type { Answer, CallTrace, SendOnce } from "./exchange.ts";
// biome-ignore lint/performance/noBarrelFile: this file is what the package publishes, and its callers need the errors.
export { ApiFailure, isRefusal, ServerUnreachable, WaitTimeout } from "./failure.ts";
export type { FollowLogs, FollowOptions } from "./follow.ts";
export type { FollowSearch, FollowSearchOptions } from "./follow-search.ts";
export { isSettled } from "./settled.ts";
export type { Watched, WatchQuery as WatchQuestion } from "./watch.ts";

export interface ClientOptions {
  /** Address of the API, with its path prefix if it has one: `http://127.0.0.1:8124`, `https://host/api-host`. */
  baseUrl: string;
  /** Absent: only calls that need no key, or a proxy that adds it. */
  apiKey?: string | undefined;
  /** Required with keys of an organization. Other keys belong to one workspace. */
  workspaceId?: string | undefined;
  /** Your user, for the calls of the OAuth service. Absent: the key itself. */
  userId?: string | undefined;
  fetch?: typeof fetch;
  /** Replaces `fetch` for everything except streams. */
  send?: SendOnce;
  /** Called after every attempt of every call. */
  onCall?: (call: CallTrace) => void;
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Deadline of all attempts together. Default 30_000. */
  deadlineMs?: number;
  /** Idempotency key of a change, if it must outlive this process. Absent: a new one for each call. */
  idempotencyKey?: string;
  /** The deployment as this client read it. If it has changed since, the change is refused (`changedMeanwhile`). */
  ifUnchanged?: Deployment;
}

type Ids = { deployment_id: string; revision_id: string };

/** One method for each operation, and helpers that need several calls. */
export type Client = {
  [Id in keyof ClientOperations]: (
    ...args: Arguments<Input<ClientOperations[Id]>>
  ) => Promise<Output<ClientOperations[Id]>>;
} & {
  /** Iterates over all items of a list: `for await (const one of client.all("listDeployments", { name_contains: "bot" }))` */
  all<Id extends ListId>(id: Id, ...args: Arguments<ListInput<Id>>): AsyncGenerator<ItemOf<Id>, void, undefined>;
  /**
   * Downloads a backup of the installation as of now, a gzipped tar archive. The server writes all of it to disk before it
   * answers. Needs an operator's key.
   * @throws ApiFailure, ServerUnreachable; reading throws when the connection ends before the archive does.
   */
  downloadBackup(signal?: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  /** Sends a gzip tar to the `upload_url` of `createUploadUrl`. Default deadline 300_000. */
  uploadArchive(uploadUrl: string, archive: Blob, options?: CallOptions): Promise<UploadReceipt>;
  /** Asks what would be built from a gzip tar, before a deployment exists. Default deadline 300_000. */
  detectArchive(archive: Blob, query?: { config_path?: string }, options?: CallOptions): Promise<Detection>;
  /**
   * Makes a change that depends on the current state of a deployment, such as adding one variable, without losing changes
   * of others. After a conflict, `change` is called again with the new state. It must pass `call` to the operation.
   */
  changeAsRead<T>(
    ids: Pick<Ids, "deployment_id">,
    change: (deployment: Deployment, call: CallOptions) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T>;
  waitForRevision(ids: Ids, options?: WaitOptions & { onChange?: (revision: Revision) => void }): Promise<Revision>;
  waitForDeletion(ids: Pick<Ids, "deployment_id">, options?: WaitOptions): Promise<void>;
  /** Yields each event once as it happens, and reconnects when the connection is lost. Ends when the watched deployment is deleted. */
  watchEvents(question?: WatchQuery, signal?: AbortSignal): AsyncGenerator<Watched, void, undefined>;
  followLogs(question: FollowLogs, options?: FollowOptions): AsyncGenerator<LogEntry, void, undefined>;
  /** Returns the newest `count` lines, oldest first. */
  tailLogs(question: FollowLogs, count: number, signal?: AbortSignal): Promise<LogEntry[]>;
  /** Yields the lines of all deployments that match a query, in batches, as they are stored. Ends only with the signal. */
  followSearch(question: FollowSearch, options?: FollowSearchOptions): AsyncGenerator<FoundLogEntry[], void, undefined>;
  /** Sends a call to a path that has no method. */
  request(verb: string, path: string, body?: unknown, options?: CallOptions): Promise<unknown>;
};

type Arguments<I> =
  Record<never, never> extends I ? [input?: I, options?: CallOptions] : [input: I, options?: CallOptions];

const callDeadlineMs = 30_000;
const uploadDeadlineMs = 300_000;

/** The server needs some minutes to write a million deployments. */
const backupDeadlineMs = 600_000;

/**
 * Creates a client of the deployment API. It has no dependencies and runs wherever `fetch` does, browsers included.
 *
 * Every call throws ApiFailure when the server refuses it, ServerUnreachable when the server does not answer, and the
 * signal's reason when it is aborted. A call is retried up to three times within its deadline after a transient failure.
 * Changes carry an `Idempotency-Key`, so a retried change takes effect once.
 */
export function createClient(options: ClientOptions): Client {
  const baseUrl = options.baseUrl.replace(/\/+$/, "");
  const fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  const transport = { fetch, send: options.send ?? fetch, onCall: options.onCall };
  const identity = identityHeaders(options);

  const send = (route: Route, path: string, body: unknown, call: CallOptions = {}) =>
    exchange(transport, {
      verb: route.verb,
      url: baseUrl + path,
      shownUrl: baseUrl + path,
      headers: { ...headersOf(route, body, call), ...identity },
      body: body === undefined ? null : { json: body },
      deadlineMs: call.deadlineMs ?? callDeadlineMs,
      signal: call.signal,
    });

  const methods = Object.fromEntries(
    Object.entries(clientRoutes).map(([id, text]) => {
      const route = routeOf(text);
      return [
        id,
        (input: Record<string, unknown> = {}, call?: CallOptions) => {
          const { body, ...rest } = input;
          return send(route, fillPath(route.path, rest), body, call);
        },
      ];
    }),
  ) as unknown as { [Id in keyof ClientOperations]: Client[Id] };

  const watches = createWatches((path, lastEventId, signal) => {
    const headers = { ...identity, ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }) };
    return openStream(transport, { url: baseUrl + path, headers, accept: "text/event-stream", signal });
  });

  return {
    ...methods,
    all: async function* (id: ListId, input: object = {}, call?: CallOptions) {
      const { readPages } = await import("./pages.ts");
      yield* readPages((place) => (methods[id] as PagedRead)({ ...input, ...place }, call));
    } as Client["all"],
    downloadBackup: (signal) => openBackup(transport, { url: `${baseUrl}/v2/admin/backup`, headers: identity, signal }),
    uploadArchive: async (uploadUrl, archive, call = {}) =>
      (await exchange(transport, {
        verb: "PUT",
        url: uploadUrl,
        shownUrl: uploadUrl.replace(/\?.*/s, ""),
        // The URL carries its own signature, so the key is not sent.
        headers: { "content-type": "application/gzip" },
        body: { blob: archive },
        deadlineMs: call.deadlineMs ?? uploadDeadlineMs,
        signal: call.signal,
      })) as UploadReceipt,
    detectArchive: async (archive, { config_path: configPath } = {}, call = {}) =>
      (await exchange(transport, {
        verb: "POST",
        url: `${baseUrl}/v2/detections/archive${configPath === undefined ? "" : `?config_path=${encodeURIComponent(configPath)}`}`,
        shownUrl: `${baseUrl}/v2/detections/archive`,
        headers: { ...identity, "content-type": "application/gzip" },
        body: { blob: archive },
        deadlineMs: call.deadlineMs ?? uploadDeadlineMs,
        signal: call.signal,
      })) as Detection,
    ...callsInTurn(methods, watches),
    request: (verb, path, body, call) => {
      const route = { verb: verb.toUpperCase() as Route["verb"], path };
      return send(route, path.startsWith("/") ? path : `/${path}`, body, call);
    },
  };
}

/** Calls that need several requests. Each file is loaded on first use, because it costs a third of a millisecond of `pierhead list`. */
function callsInTurn(
  methods: { [Id in keyof ClientOperations]: Client[Id] },
  watches: ReturnType<typeof createWatches>,
): Pick<
  Client,
  "changeAsRead" | "waitForRevision" | "waitForDeletion" | "watchEvents" | "followLogs" | "tailLogs" | "followSearch"
> {
  const readLogPage = ({ revision_id, ...question }: FollowLogs, signal?: AbortSignal) =>
    revision_id === undefined
      ? methods.getDeploymentLogs(question, { signal })
      : methods.getRevisionLogs({ ...question, revision_id }, { signal });

  return {
    changeAsRead: async (ids, change, signal) => {
      const { changeAsRead } = await import("./change-as-read.ts");
      const changed = (read: Deployment) => change(read, { signal, ifUnchanged: read });
      return await changeAsRead(reading(methods.getDeployment, ids), changed, signal);
    },
    waitForRevision: async (ids, wait) => {
      const { waitForRevision } = await import("./wait.ts");
      return await waitForRevision(reading(methods.getRevision, ids), watches.deployment(ids), wait);
    },
    waitForDeletion: async (ids, wait) => {
      const { waitForDeletion } = await import("./wait.ts");
      await waitForDeletion(reading(methods.getDeployment, ids), watches.deployment(ids), wait);
    },
    watchEvents: watches.events,
    followLogs: async function* (question, follow) {
      const { followLogs } = await import("./follow.ts");
      yield* followLogs({ read: readLogPage, watch: watches.log(question) }, question, follow);
    },
    tailLogs: async (question, count, signal) => {
      const { readTail } = await import("./follow.ts");
      return await readTail(readLogPage, question, count, signal);
    },
    followSearch: async function* (question, follow) {
      const { followSearch } = await import("./follow-search.ts");
      yield* followSearch((input, signal) => methods.searchLogs(input, { signal }), question, follow);
    },
  };
}

function identityHeaders({ apiKey, workspaceId, userId }: ClientOptions): Record<string, string> {
  const headers = { "x-api-key": apiKey, "x-tenant-id": workspaceId, "x-user-id": userId };
  return Object.fromEntries(
    Object.entries(headers).filter((header): header is [string, string] => header[1] !== undefined),
  );
}

function headersOf({ verb }: Route, body: unknown, call: CallOptions): Record<string, string> {
  const tag = call.ifUnchanged === undefined ? undefined : tagOf(call.ifUnchanged);
  return {
    accept: "application/json",
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...(verb === "GET" ? {} : { "idempotency-key": call.idempotencyKey ?? randomKey() }),
    ...(tag === undefined ? {} : { "if-match": tag }),
  };
}

async function openBackup(
  transport: Transport,
  {
    signal = new AbortController().signal,
    ...request
  }: Pick<StreamRequest, "url" | "headers"> & { signal?: AbortSignal | undefined },
): Promise<ReadableStream<Uint8Array>> {
  const wanted = { accept: "application/gzip", headDeadlineMs: backupDeadlineMs };
  const { body } = await openStream(transport, { ...request, ...wanted, signal });
  return body as ReadableStream<Uint8Array>;
}

/** Binds a read to its input. */
function reading<I, T>(read: (input: I, options: CallOptions) => Promise<T>, input: I) {
  return (signal?: AbortSignal) => read(input, { signal });
}

function createWatches(open: OpenStream) {
  const watch = async function* (question: WatchQuery = {}, signal?: AbortSignal) {
    const { watchEvents } = await import("./watch.ts");
    yield* watchEvents(open, question, signal);
  };
  return {
    events: watch,
    deployment:
      ({ deployment_id }: { deployment_id: string }) =>
      (signal: AbortSignal) =>
        watch({ deployment_id }, signal),
    log:
      ({ deployment_id, type }: FollowLogs) =>
      (logs_after: string, signal?: AbortSignal) =>
        watch({ deployment_id, logs: [type], logs_after, types: ["revision.status"] }, signal),
  };
}

type PagedRead = (input: object, call?: CallOptions) => Promise<Page>;

/** Fills the braces of a path with parameters. The remaining parameters become the query. */
function fillPath(path: string, parameters: Record<string, unknown>): string {
  const query = new URLSearchParams();
  const inPath = new Set([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
  for (const [name, value] of Object.entries(parameters)) {
    if (!inPath.has(name) && value !== undefined && value !== null) query.append(name, String(value));
  }
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(parameters[name])));
  return query.size === 0 ? filled : `${filled}?${query}`;
}

/** Returns 128 random bits as hex. `crypto.randomUUID` is missing on pages that are not served over https. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
