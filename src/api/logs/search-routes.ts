import { errors } from "../../contract/error.ts";
import { logSearchDaysMax, logSearchHoursDefault, type SearchLogsQuery } from "../../contract/logs/search.ts";
import { operations } from "../../contract/operations.ts";
import { type LogQuery, LogQueryError, logTermsOf, parseLogQuery } from "../../domain/log-query.ts";
import type { Db } from "../../store/engine/database.ts";
import { findDeploymentsNamed, type LogPosition, type ResolvedLogQuery } from "../../store/logs/search-logs.ts";
import { type Api, route } from "../http/route.ts";
import { countsOf, foundLogEntryOf } from "./present-search.ts";
import { searchLines } from "./search-lines.ts";
import { SearchTurns } from "./search-turns.ts";

const hourMs = 3_600_000;

/** After the last line of every log: the years of the database's times end with 9999. */
const newest: LogPosition = { atMs: Date.UTC(9_999, 0), id: 0 };

/** Adds the search over the logs of all deployments of a workspace. */
export function addSearchRoutes(api: Api): void {
  const { db } = api.deps;
  const turns = new SearchTurns();
  route(api, operations.searchLogs, async ({ principal, query, signal }) => {
    const resolved = await resolvedQuery(db, principal.tenantId, query.query ?? "");
    const { startAt, endAt } = rangeOf(query, db.now());
    const stepMs = query.counts ? stepOf(startAt.getTime(), (endAt ?? db.now()).getTime()) : null;
    const search = await searchLines(
      { db, turns },
      {
        tenantId: principal.tenantId,
        query: resolved,
        startAt,
        from: cursorOf(query.cursor) ?? { atMs: endAt?.getTime() ?? newest.atMs, id: 0 },
        limit: query.limit,
        stepMs,
        signal,
      },
    );
    const timeOf = (position: LogPosition | null) => new Date(position?.atMs ?? startAt.getTime()).toISOString();
    return {
      logs: search.found.map(foundLogEntryOf),
      next_cursor: search.next && textOf(search.next),
      searched_to: timeOf(search.next),
      start_time: startAt.toISOString(),
      end_time: endAt?.toISOString() ?? null,
      counts:
        stepMs === null
          ? null
          : {
              lines_read: search.read,
              matches: search.matches,
              read_to: timeOf(search.readTo),
              next_cursor: search.readTo && textOf(search.readTo),
              step_ms: stepMs,
              ...countsOf(search.counts, stepMs),
            },
    };
  });
}

/** Replaces the names of deployments by ids. @throws ApiError 400 `invalidLogQuery` */
async function resolvedQuery(db: Db, tenantId: string, text: string): Promise<ResolvedLogQuery> {
  const { deployments, ...query } = parsed(text);
  const named = [...deployments.any, ...deployments.none];
  const rows = named.length === 0 ? [] : await findDeploymentsNamed(db, tenantId, named);
  const idsOf = (name: string) => rows.filter((row) => row.name === name || row.id === name).map(({ id }) => id);
  const unknown = named.find((name) => idsOf(name).length === 0);
  if (unknown !== undefined) {
    const term = logTermsOf(text).find(({ field, values }) => field === "deployment" && values.includes(unknown));
    throw errors.invalidLogQuery(`There is no deployment '${unknown}' in this workspace.`, (term?.from ?? 0) + 1);
  }
  return {
    ...query,
    deploymentIds: deployments.any.length === 0 ? null : deployments.any.flatMap(idsOf),
    notDeploymentIds: deployments.none.flatMap(idsOf),
  };
}

function parsed(text: string): LogQuery {
  try {
    return parseLogQuery(text);
  } catch (error) {
    if (error instanceof LogQueryError) throw errors.invalidLogQuery(error.message, error.position);
    throw error;
  }
}

function rangeOf({ start_time, end_time }: SearchLogsQuery, now: Date): { startAt: Date; endAt: Date | null } {
  const endAt = end_time === undefined ? null : new Date(end_time);
  const endMs = (endAt ?? now).getTime();
  const startAt = new Date(start_time ?? endMs - logSearchHoursDefault * hourMs);
  if (startAt.getTime() > endMs) throw errors.invalidField("start_time", "must be before 'end_time'");
  if (endMs - startAt.getTime() > logSearchDaysMax * 24 * hourMs) {
    throw errors.invalidField("start_time", `must be at most ${logSearchDaysMax} days before the end`);
  }
  return { startAt, endAt };
}

/** The histogram has at most this many intervals. */
const intervalsMax = 100;
const minuteMs = 60_000;
const steps = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  1_000,
  2_000,
  5_000,
  10_000,
  15_000,
  30_000,
  ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 10_080].map((minutes) => minutes * minuteMs),
];

/** Returns the length of an interval: the shortest round one with which the range has few enough. */
const stepOf = (startMs: number, endMs: number): number =>
  steps.find((step) => (endMs - startMs) / step <= intervalsMax) ?? (steps.at(-1) as number);

const textOf = ({ atMs, id }: LogPosition) => `${atMs}.${id}`;

function cursorOf(cursor: string | undefined): LogPosition | null {
  if (!cursor) return null;
  const [, at, id] = /^(-?\d{1,15})\.(\d{1,15})$/.exec(cursor) ?? [];
  if (at === undefined || Math.abs(Number(at)) > newest.atMs) throw errors.invalidLogCursor();
  return { atMs: Number(at), id: Number(id) };
}
