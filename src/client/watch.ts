import { backoffMs, withJitter } from "../base/backoff.ts";
import { pause } from "../base/pause.ts";
import type { Event, EventType } from "../contract/logs/event.ts";
import type { LogEntry, LogType } from "../contract/logs/log.ts";
import { readMessages } from "./event-stream.ts";
import { ApiFailure, isPassing } from "./failure.ts";

export interface WatchQuery {
  /** Absent: the whole workspace. */
  deployment_id?: string;
  types?: readonly EventType[];
  /** Position from a response after which to start. `0`: the oldest stored event. Absent: now. */
  after?: string;
  /** Logs of the deployment whose lines the stream also carries. */
  logs?: readonly LogType[];
  logs_after?: string;
}

/**
 * `open`: the stream is connected, and no event from here on is missed. It is repeated after each reconnect.
 * `lost`: the connection was lost.
 * `reset`: the events in between are no longer stored. Read the watched state again.
 */
export type Watched =
  | { kind: "open"; position: string }
  | { kind: "lost"; position: string }
  | { kind: "event"; position: string; event: Event }
  | { kind: "log"; position: string; line: LogEntry }
  | { kind: "reset"; position: string };

/** Opens one connection. @throws ApiFailure, ServerUnreachable */
export type OpenStream = (path: string, lastEventId: string | undefined, signal: AbortSignal) => Promise<Response>;

const retryBounds = { firstMs: 250, maxMs: 5_000 };

/** A restarting server is back within this time. A longer outage is reported. */
const outageMaxMs = 60_000;

/**
 * Yields events as they happen, each once and in order, across lost connections and restarts of the server. Ends when the
 * watched deployment is deleted.
 * @throws ApiFailure when the server refuses; ServerUnreachable when it stays unreachable; the signal's reason.
 */
export async function* watchEvents(
  open: OpenStream,
  question: WatchQuery,
  signal: AbortSignal = new AbortController().signal,
): AsyncGenerator<Watched, void, undefined> {
  const state: WatchState = { position: undefined, isOpen: false, failures: 0, atMs: performance.now() };
  for (; ; state.failures += 1) {
    try {
      const { body } = await open(pathOf(question), state.position, signal);
      yield* messagesOf(body as ReadableStream<Uint8Array<ArrayBuffer>>, state);
    } catch (error) {
      signal.throwIfAborted();
      if (state.position !== undefined && isGone(error)) return;
      if (isRefusal(error) || performance.now() - state.atMs > outageMaxMs) throw error;
    }
    if (state.isOpen) yield { kind: "lost", position: state.position ?? "" };
    state.isOpen = false;
    await pause(withJitter(backoffMs(state.failures + 1, retryBounds)), signal);
  }
}

/** State of a watch across its connections. */
interface WatchState {
  position: string | undefined;
  isOpen: boolean;
  /** Consecutive connections without a message. */
  failures: number;
  atMs: number;
}

async function* messagesOf(body: ReadableStream<Uint8Array<ArrayBuffer>>, state: WatchState): AsyncGenerator<Watched> {
  for await (const { type, data, id } of readMessages(body, state.position ?? "")) {
    if (!state.isOpen) yield { kind: "open", position: id };
    Object.assign(state, { position: id, isOpen: true, failures: 0, atMs: performance.now() });
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

function pathOf({ deployment_id: id, types, after, logs, logs_after }: WatchQuery): string {
  const lists = { types, logs };
  const query = new URLSearchParams();
  for (const [name, values] of Object.entries(lists)) if (values?.length) query.set(name, values.join(","));
  if (after !== undefined) query.set("after", after);
  if (logs_after !== undefined) query.set("logs_after", logs_after);
  const path = id === undefined ? "/v2/events" : `/v2/deployments/${encodeURIComponent(id)}/events`;
  return query.size === 0 ? path : `${path}?${query}`;
}
