import type { Event, EventType } from "../contract/logs/event.ts";
import type { LogEntry, LogType } from "../contract/logs/log.ts";
import { readMessages } from "./event-stream.ts";
import { ApiFailure, isPassing } from "./failure.ts";
import { pause } from "./pause.ts";

export interface WatchQuestion {
  /** Absent: the whole workspace. */
  deployment_id?: string;
  types?: readonly EventType[];
  /** Place behind which to begin, as an answer gave it; `0`: the oldest event that is kept. Absent: now. */
  after?: string;
  /** Lines of one deployment's logs come along. */
  logs?: readonly LogType[];
  logs_after?: string;
}

/**
 * `open`: the stream runs, and nothing that happens from here on is missed; it comes again after each lost connection, which
 * `lost` tells of at once.
 * `reset`: what happened meanwhile is no longer kept; read anew what you watch.
 */
export type Watched =
  | { kind: "open"; position: string }
  | { kind: "lost"; position: string }
  | { kind: "event"; position: string; event: Event }
  | { kind: "log"; position: string; line: LogEntry }
  | { kind: "reset"; position: string };

/** Opens one connection. @throws ApiFailure, ServerUnreachable */
export type OpenStream = (path: string, lastEventId: string | undefined, signal: AbortSignal) => Promise<Response>;

const backOffMinMs = 250;
const backOffMaxMs = 5_000;

/** A server that restarts is back within this; one that stays away longer is reported. */
const patienceMs = 60_000;

/**
 * Events as they happen, each once and in order, over lost connections and restarts of the server. Ends when the watched
 * deployment is gone.
 * @throws ApiFailure when the server refuses; ServerUnreachable when it stays away; the signal's reason.
 */
export async function* watchEvents(
  open: OpenStream,
  question: WatchQuestion,
  signal: AbortSignal = new AbortController().signal,
): AsyncGenerator<Watched, void, undefined> {
  const heard: Heard = { position: undefined, isOpen: false, failures: 0, atMs: performance.now() };
  for (; ; heard.failures += 1) {
    try {
      const { body } = await open(pathOf(question), heard.position, signal);
      yield* heardOver(body as ReadableStream<Uint8Array<ArrayBuffer>>, heard);
    } catch (error) {
      signal.throwIfAborted();
      if (heard.position !== undefined && isGone(error)) return;
      if (isRefusal(error) || performance.now() - heard.atMs > patienceMs) throw error;
    }
    if (heard.isOpen) yield { kind: "lost", position: heard.position ?? "" };
    heard.isOpen = false;
    await pause(Math.min(backOffMaxMs, backOffMinMs * 2 ** heard.failures) * (0.5 + Math.random() / 2), signal);
  }
}

/** What a watch knows over its connections. */
interface Heard {
  position: string | undefined;
  isOpen: boolean;
  /** Connections in a row that brought nothing. */
  failures: number;
  atMs: number;
}

async function* heardOver(body: ReadableStream<Uint8Array<ArrayBuffer>>, heard: Heard): AsyncGenerator<Watched> {
  for await (const { type, data, id } of readMessages(body, heard.position ?? "")) {
    if (!heard.isOpen) yield { kind: "open", position: id };
    Object.assign(heard, { position: id, isOpen: true, failures: 0, atMs: performance.now() });
    if (data !== "") yield watchedOf(type, data, id);
  }
}

const isRefusal = (error: unknown) => error instanceof ApiFailure && !isPassing(error);
const isGone = (error: unknown) => error instanceof ApiFailure && error.status === 404;

function watchedOf(type: string, data: string, position: string): Watched {
  const value = JSON.parse(data) as unknown;
  if (type === "reset") return { kind: "reset", position };
  if (type === "log") return { kind: "log", position, line: value as LogEntry };
  return { kind: "event", position, event: value as Event };
}

function pathOf({ deployment_id: id, types, after, logs, logs_after }: WatchQuestion): string {
  const lists = { types, logs };
  const query = new URLSearchParams();
  for (const [name, values] of Object.entries(lists)) if (values?.length) query.set(name, values.join(","));
  if (after !== undefined) query.set("after", after);
  if (logs_after !== undefined) query.set("logs_after", logs_after);
  const path = id === undefined ? "/v2/events" : `/v2/deployments/${encodeURIComponent(id)}/events`;
  return query.size === 0 ? path : `${path}?${query}`;
}
