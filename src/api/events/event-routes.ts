import { Type } from "typebox";
import { type Principal, recheckPrincipal } from "../../auth/principal.ts";
import { type Held, Shares, shareRules } from "../../base/shares.ts";
import type { SlotQueues } from "../../base/slot-queues.ts";
import { ApiError, errors } from "../../contract/error.ts";
import { type EventPage, lastEventIdHeader } from "../../contract/logs/event.ts";
import type { LogType } from "../../contract/logs/log.ts";
import { operations } from "../../contract/operations.ts";
import { eventStreamsMax } from "../../domain/limits.ts";
import {
  type EventFilter,
  type EventRow,
  mayBeDeleted,
  readEvents,
  readEventsBack,
} from "../../store/events/events.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import { credentialsOf } from "../http/authenticate.ts";
import { type Api, type Call, route } from "../http/route.ts";
import { streamHeaders, wantsStream } from "../http/server-sent-events.ts";
import { compileValidator } from "../validation/validate.ts";
import { EventStream, type StreamFilter } from "./event-stream.ts";
import { eventOf } from "./present-event.ts";
import { streamTurns } from "./stream-turns.ts";

type ListCall = Call<typeof operations.listEvents, Principal>;
type DeploymentCall = Call<typeof operations.listDeploymentEvents, Principal>;

/** Adds the event routes: pages of stored events and live streams (docs/guides/events.md). */
export function addEventRoutes(api: Api): void {
  const { db } = api.deps;
  const shares = new Shares(shareRules(eventStreamsMax, api.deps.settings.workspaceShare));
  const streams = { shares, turns: streamTurns(db.kind) };

  route(api, operations.listEvents, async (call) => {
    const { principal, query } = call;
    const filter = {
      tenantId: principal.tenantId,
      deploymentIds: query.deployment_ids ?? null,
      types: query.types ?? null,
    };
    if (!wantsStream(call.request)) return readInTurn(api, call, filter);
    const { after } = cursorOf(call, []);
    return stream(api, streams, call, { ...filter, after, logs: [], endsWithDeployment: false });
  });

  route(api, operations.listDeploymentEvents, async (call) => {
    const { principal, params, query } = call;
    const { id } = await readDeployment(db, principal, params.deployment_id);
    const filter = { tenantId: principal.tenantId, deploymentIds: [id], types: query.types ?? null };
    if (!wantsStream(call.request)) return readInTurn(api, call, filter);
    const kinds = logKinds.filter((kind) => query.logs?.includes(kind));
    const { after, logIds } = cursorOf(call, kinds);
    const known = query.logs_after === undefined ? null : Number(query.logs_after);
    const logs = kinds.map((kind, index) => ({ kind, after: logIds?.[index] ?? known }));
    return stream(api, streams, call, { ...filter, after, logs, endsWithDeployment: true });
  });
}

/** Order of the log positions in a cursor. */
const logKinds: readonly LogType[] = ["build", "deploy"];

/** Reads a page in turn with the other reads of the workspace. Streams have turns of their own. */
const readInTurn = (api: Api, { principal, query, signal }: ListCall | DeploymentCall, filter: EventFilter) =>
  api.readTurns.take({ owner: principal.tenantId, operation: "listEvents", signal }, () =>
    readPage(api, filter, query),
  );

/** Bytes of the events of a page, and events per statement. Those of failed revisions have 30 kB each. */
const pageBytesMax = 8 * 1024 * 1024;
const firstEvents = 100;

/** Reads until the page is full, or the next event would exceed its bytes. @param read the events behind one, or from the beginning */
async function readWithin(
  limit: number,
  read: (after: EventRow | undefined, count: number) => Promise<EventRow[]>,
): Promise<{ rows: EventRow[]; isFull: boolean }> {
  const rows: EventRow[] = [];
  let bytes = 0;
  let count = Math.min(firstEvents, limit);
  while (count > 0) {
    const some = await read(rows.at(-1), count);
    for (const row of some) {
      bytes += Buffer.byteLength(JSON.stringify(row.data));
      if (rows.length > 0 && bytes > pageBytesMax) return { rows, isFull: true };
      rows.push(row);
    }
    if (some.length < count) return { rows, isFull: false };
    const isSmall = bytes / rows.length < pageBytesMax / limit;
    count = Math.min(isSmall ? limit : firstEvents, limit - rows.length);
  }
  return { rows, isFull: true };
}

/** Returns a page of stored events. @throws ApiError 410 `eventsForgotten` */
async function readPage(
  { deps: { db, events } }: Api,
  filter: EventFilter,
  query: { after?: string | undefined; order: "asc" | "desc"; limit: number },
): Promise<EventPage> {
  const after = query.after === undefined ? null : Number(query.after.split(".")[0]);
  const { limit } = query;
  if (query.order === "desc") {
    const { rows } = await readWithin(limit, (last, count) =>
      readEventsBack(db, filter, { before: last?.id ?? after ?? Number.MAX_SAFE_INTEGER, limit: count }),
    );
    return { events: rows.map(eventOf), position: String(rows.at(-1)?.id ?? after ?? 0) };
  }
  if (after !== null && (await mayBeDeleted(db, after))) throw errors.eventsForgotten();
  // An event above this position may still commit below it, and a client that continues from there would miss it.
  const upTo = await events.settled();
  const { rows, isFull } = await readWithin(limit, (previous, count) =>
    readEvents(db, filter, { after: previous?.id ?? after ?? 0, upTo, limit: count }),
  );
  const last = isFull ? rows.at(-1)?.id : Math.max(upTo, after ?? 0);
  return { events: rows.map(eventOf), position: String(last) };
}

/**
 * Counts a stream before it opens: when many clients connect at once, as after a restart, none may slip past the limit.
 * @throws ApiError 429 when the workspace or the key holds its share of streams; 503 when no stream is left.
 */
function hold(streams: Shares, { tenantId, keyId }: Principal): Held {
  const held = streams.take({ workspaceId: tenantId, keyId });
  if ("release" in held) return held;
  if (held.limit === "total")
    throw errors.unavailable("This server has reached its limit of open event streams. Try again in a few seconds.", 5);
  throw errors.shareExceeded("event streams", held.limit, held.max);
}

/**
 * Serves an event stream until it ends.
 * @throws ApiError 429 and 503 when no more streams may open; 503 when the server stops.
 */
async function stream(
  { deps, keyring }: Api,
  { shares, turns }: { shares: Shares; turns: SlotQueues },
  { request, principal, takeOver }: ListCall | DeploymentCall,
  filter: StreamFilter,
): Promise<EventPage> {
  const held = hold(shares, principal);
  const credentials = credentialsOf(request.headers);
  const isAllowed = async () => {
    try {
      await recheckPrincipal(keyring, credentials, "reader", principal);
      return true;
    } catch (error) {
      // While the database is unreachable, nothing can be checked, so the stream stays open.
      return !(error instanceof ApiError);
    }
  };
  const { db, logger, events: feed } = deps;
  const { streamHeartbeatMs: heartbeatMs } = deps.settings;
  const opened = new EventStream({ db, logger, feed, turns, isAllowed, heartbeatMs }, filter);
  deps.metrics.eventStreams.set(shares.held);
  try {
    const first = await opened.open();
    await opened.run(takeOver(streamHeaders), first);
  } finally {
    held.release();
    deps.metrics.eventStreams.set(shares.held);
  }
  return { events: [], position: "" };
}

/**
 * Returns where to continue: from the `Last-Event-ID` header, which browsers send when they reconnect, or from the
 * query.
 * @throws ApiError 422 for a cursor that no response contained.
 */
function cursorOf({ request, query }: ListCall | DeploymentCall, kinds: readonly LogType[]) {
  const header = request.headers["last-event-id"];
  if (header !== undefined && header !== "") {
    const { problems } = readHeader({ "last-event-id": [String(header)] });
    if (problems.length > 0) throw errors.invalidRequest(problems);
  }
  const text = header ? String(header) : query.after;
  if (text === undefined) return { after: null, logIds: undefined };
  const [after = 0, ...logIds] = text.split(".").map(Number);
  return { after, logIds: logIds.length === kinds.length ? logIds : undefined };
}

const readHeader = compileValidator(Type.Object({ "last-event-id": lastEventIdHeader }), "header");
