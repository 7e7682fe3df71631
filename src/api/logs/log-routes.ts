import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import { type LogLevel, type LogPage, logPageSizeDefault, type ReadLogsBody } from "../../contract/logs/log.ts";
import { operations } from "../../contract/operations.ts";
import { isFinal } from "../../domain/revision-status.ts";
import type { Db } from "../../store/engine/database.ts";
import { type LogEntryRow, type LogFilter, logPageBytesMax, readLogEntries } from "../../store/logs/log-entries.ts";
import type { RevisionRow } from "../../store/revisions/revisions.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import { type Api, type Call, route } from "../http/route.ts";
import { readRevision } from "../revisions/revision-routes.ts";
import { logEntryOf } from "./present-log-entry.ts";

/** Adds the log routes under every address that clients know: G1 to G5 (contract 3.4). */
export function addLogRoutes(api: Api): void {
  const { db } = api.deps;

  route(api, operations.getRevisionLogs, async ({ principal, params, query }) => {
    const revision = await readRevision(db, principal, params);
    return readPage(db, revisionLog(db, revision, query.type), { ...query, cursor: query.offset });
  });

  route(api, operations.getDeploymentLogs, async ({ principal, params, query }) => {
    const { id } = await readDeployment(db, principal, params.deployment_id);
    return readPage(db, deploymentLog(id, query.type), { ...query, cursor: query.offset });
  });

  route(api, operations.listDeploymentLogs, async ({ principal, query }) => {
    const kind = query.log_type === "BUILD" ? "build" : "deploy";
    const log = await namedLog(db, principal, query, kind);
    const page = { ...query, order: query.sort_order, limit: query.page_size };
    const { logs, next_offset } = await readPage(db, log, page);
    return { items: logs, next_cursor: next_offset };
  });

  const ofRevision = async (call: Call<typeof operations.readBuildLogs, Principal>, kind: Kind) => {
    const revision = await readRevision(db, call.principal, call.params);
    return readPage(db, revisionLog(db, revision, kind), logQueryOf(call.body));
  };
  route(api, operations.readBuildLogs, (call) => ofRevision(call, "build"));
  route(api, operations.readRevisionDeployLogs, (call) => ofRevision(call, "deploy"));
  route(api, operations.readDeployLogs, async ({ principal, params, body }) => {
    const { id } = await readDeployment(db, principal, params.deployment_id);
    return readPage(db, deploymentLog(id, "deploy"), logQueryOf(body));
  });
}

type Kind = LogFilter["kind"];

/** Log to read: of one revision, or of a whole deployment. */
interface Log {
  deploymentId: string;
  revisionId: string | null;
  kind: Kind;
  /** Whether the log is complete: no more lines will be added. */
  hasEnded: boolean;
}

function revisionLog(db: Db, revision: RevisionRow, kind: Kind): Log {
  const { deployment_id: deploymentId, id: revisionId } = revision;
  return { deploymentId, revisionId, kind, hasEnded: hasEnded(revision, kind, db.now()) };
}

/** Never ended, because the next revision may add lines at any time. */
const deploymentLog = (deploymentId: string, kind: Kind): Log => ({
  deploymentId,
  revisionId: null,
  kind,
  hasEnded: false,
});

async function namedLog(
  db: Db,
  principal: Principal,
  named: { deployment_id: string; revision_id?: string },
  kind: Kind,
): Promise<Log> {
  const { deployment_id, revision_id } = named;
  if (revision_id === undefined) return deploymentLog((await readDeployment(db, principal, deployment_id)).id, kind);
  return revisionLog(db, await readRevision(db, principal, { deployment_id, revision_id }), kind);
}

/** Build lines are stored before the revision moves on. Replicas write while they run, and a little longer. */
function hasEnded({ status, status_since: since }: RevisionRow, kind: Kind, now: Date): boolean {
  if (kind === "build") return isFinal(status) || status === "AWAITING_DEPLOY" || status === "DEPLOYING";
  return isFinal(status) && status !== "DEPLOYED" && now.getTime() - since.getTime() > lastLinesMs;
}

/** Lines of a failed replica arrive in batches after the report that it ended. */
const lastLinesMs = 60_000;

interface LogQuery {
  order: "asc" | "desc";
  limit: number;
  cursor?: string | undefined;
  level?: LogLevel | undefined;
  query?: string | undefined;
  run_id?: string | undefined;
  start_time?: string | undefined;
  end_time?: string | undefined;
  /** Whether the client may follow the log by time alone. */
  mayFollowByTime?: boolean;
}

/** In a body, null counts as absent. */
function logQueryOf(body: ReadLogsBody): LogQuery {
  return {
    order: body.order ?? "asc",
    limit: body.limit ?? logPageSizeDefault,
    cursor: body.offset ?? undefined,
    level: body.level ?? undefined,
    query: body.query ?? undefined,
    start_time: body.start_time ?? undefined,
    end_time: body.end_time ?? undefined,
    mayFollowByTime: true,
  };
}

/** Returns a page of a log. @throws ApiError 400 `invalidLogCursor` */
async function readPage(db: Db, log: Log, query: LogQuery): Promise<LogPage> {
  const filter: LogFilter = {
    deploymentId: log.deploymentId,
    revisionId: log.revisionId,
    kind: log.kind,
    order: query.order,
    limit: query.limit,
    afterId: idOf(query.cursor),
    levelMin: query.level ?? null,
    query: query.query || null,
    runId: query.run_id || null,
    startAt: timeOf(query.start_time),
    endAt: timeOf(query.end_time),
  };
  const page = await readEntries(db, filter, query.mayFollowByTime === true);
  return { logs: page.rows.map((row) => logEntryOf(row, log.kind)), next_offset: nextOffset(page, log, query) };
}

interface Entries {
  rows: LogEntryRow[];
  /** Last row of the page, where the next page starts; undefined when nothing was found. */
  last: LogEntryRow | undefined;
  isFull: boolean;
}

async function readEntries(db: Db, filter: LogFilter, mayFollowByTime: boolean): Promise<Entries> {
  const { startAt, afterId, order } = filter;
  const { rows, isFull } = await readLogEntries(db, filter);
  const isByTime = mayFollowByTime && startAt !== null && afterId === null && order === "asc";
  if (isFull && isByTime) return readSince(db, filter, startAt);
  return { rows, last: rows.at(-1), isFull };
}

/** Maximum lines with one timestamp that are returned in addition to the page itself, and of their bytes. */
const atOnceMax = 2_000;
const atOnceBytesMax = logPageBytesMax / 2;

/**
 * Reads a page for public command-line clients, which follow a log by the time of the last line that they got and keep
 * no cursor. Lines that were written at once share one timestamp. If there are more of those than fit a page, these
 * clients would get the same page over and over. So a page never ends between lines of one timestamp, and the lines of
 * its first timestamp, most of which the client has already seen, do not count towards the page size.
 */
async function readSince(db: Db, filter: LogFilter, startAt: Date): Promise<Entries> {
  const nextMoment = new Date(startAt.getTime() + 1);
  const endAt = filter.endAt !== null && filter.endAt < nextMoment ? filter.endAt : nextMoment;
  const { rows: first } = await readLogEntries(
    db,
    { ...filter, order: "desc", limit: atOnceMax, endAt },
    atOnceBytesMax,
  );
  const { rows: later, isFull } = await readLogEntries(db, { ...filter, startAt: nextMoment });
  if (isFull) later.push(...(await restOfMoment(db, filter, later.at(-1) as LogEntryRow)));
  const all = [...first, ...later].sort((a, b) => a.id - b.id);
  const last = isFull ? later.at(-1) : all.at(-1);
  // Lines after the last one belong to the next page.
  return { rows: all.filter(({ id }) => id <= (last?.id ?? 0)), last, isFull };
}

async function restOfMoment(db: Db, filter: LogFilter, { id, logged_at: moment }: LogEntryRow): Promise<LogEntryRow[]> {
  const { rows } = await readLogEntries(db, { ...filter, afterId: id, limit: atOnceMax }, atOnceBytesMax);
  const end = rows.findIndex((row) => row.logged_at.getTime() !== moment.getTime());
  return end < 0 ? rows : rows.slice(0, end);
}

/**
 * Returns the cursor of the next page. A log that still grows, read in ascending order, always has one: the position
 * after the last line read. Clients take null for "start again" and would print everything twice.
 */
function nextOffset({ last, isFull }: Entries, log: Log, { order, cursor }: LogQuery): string | null {
  const mayHaveMore = isFull || (order === "asc" && !log.hasEnded);
  if (!mayHaveMore) return null;
  return last?.id.toString() ?? cursor ?? "0";
}

function idOf(cursor: string | undefined): number | null {
  if (!cursor) return null;
  // Ids stay far below 2^53, so no response ever contained a longer number.
  if (!/^\d{1,15}$/.test(cursor)) throw errors.invalidLogCursor();
  return Number(cursor);
}

const timeOf = (text: string | undefined) => (text === undefined ? null : new Date(text));
