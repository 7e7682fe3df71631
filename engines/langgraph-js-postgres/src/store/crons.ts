import type { AuthContext, AuthFilters } from "../stock.ts";
import { Conditions, order } from "./conditions.ts";
import type { Database, Query } from "./database.ts";
import { exact, plainText, searchable } from "./json.ts";

export interface Cron {
  cron_id: string;
  assistant_id: string;
  thread_id: string | null;
  on_run_completed: "delete" | "keep";
  end_time: Date | null;
  schedule: string;
  timezone: string | null;
  created_at: Date;
  updated_at: Date;
  payload: Record<string, unknown>;
  user_id: string | null;
  next_run_date: Date | null;
  metadata: Record<string, unknown>;
  enabled: boolean;
}

export type NewCron = Omit<Cron, "created_at" | "updated_at">;

export interface DueCron extends Cron {
  /** The user who made the cron. Its runs belong to that user. */
  auth: AuthContext | null;
}

const columns = `cron_id, assistant_id, thread_id, on_run_completed, end_time, schedule, timezone, created_at, updated_at, payload,
  user_id, next_run_at as next_run_date, metadata, enabled`;
const sortable = ["cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "end_time"];

export async function insertCron(query: Query, cron: NewCron, auth: AuthContext | undefined): Promise<Cron> {
  const [row] = await query<Cron>(
    `insert into @crons (cron_id, assistant_id, thread_id, on_run_completed, end_time, schedule, timezone, payload, user_id,
       next_run_at, metadata, search, enabled, auth)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) returning ${columns}`,
    [
      cron.cron_id,
      cron.assistant_id,
      cron.thread_id,
      cron.on_run_completed,
      cron.end_time,
      plainText(cron.schedule),
      cron.timezone,
      exact(cron.payload),
      cron.user_id === null ? null : plainText(cron.user_id),
      cron.next_run_date,
      exact(cron.metadata),
      searchable(cron.metadata),
      cron.enabled,
      auth === undefined ? null : exact(auth),
    ],
  );
  return row as Cron;
}

export async function findCron(query: Query, id: string, lock: "for update" | "" = ""): Promise<Cron | undefined> {
  const [row] = await query<Cron>(`select ${columns} from @crons where cron_id = $1 ${lock}`, [plainText(id)]);
  return row;
}

export async function updateCron(query: Query, cron: Cron): Promise<Cron> {
  const [row] = await query<Cron>(
    `update @crons set on_run_completed = $2, end_time = $3, schedule = $4, timezone = $5, payload = $6, next_run_at = $7,
       metadata = $8, search = $9, enabled = $10, updated_at = now()
     where cron_id = $1 returning ${columns}`,
    [
      cron.cron_id,
      cron.on_run_completed,
      cron.end_time,
      plainText(cron.schedule),
      cron.timezone,
      exact(cron.payload),
      cron.next_run_date,
      exact(cron.metadata),
      searchable(cron.metadata),
      cron.enabled,
    ],
  );
  return row as Cron;
}

export async function deleteCron(query: Query, id: string): Promise<void> {
  await query("delete from @crons where cron_id = $1", [id]);
}

export interface CronFilter {
  assistantId?: string;
  threadId?: string;
  enabled?: boolean;
  metadata?: Record<string, unknown>;
  sortBy?: string;
  sortOrder?: string;
}

export function searchCrons(query: Query, filter: CronFilter, filters: AuthFilters, limit: number, offset: number) {
  const where = conditionsOf(filter, filters);
  return query<Cron>(
    `select ${columns} from @crons where ${where} ${order(filter.sortBy, filter.sortOrder, sortable, "cron_id")}
     limit ${where.parameter(limit)} offset ${where.parameter(offset)}`,
    where.values,
  );
}

export async function countCrons(query: Query, filter: CronFilter, filters: AuthFilters): Promise<number> {
  const where = conditionsOf(filter, filters);
  const [row] = await query<{ n: string }>(`select count(*) as n from @crons where ${where}`, where.values);
  return Number(row?.n);
}

const conditionsOf = (filter: CronFilter, filters: AuthFilters): Conditions =>
  new Conditions()
    .add("assistant_id = ?", filter.assistantId)
    .add("thread_id = ?", filter.threadId)
    .add("enabled = ?", filter.enabled)
    .contains("search", filter.metadata)
    .allowed("search", filters);

export function dueCrons(query: Query): Promise<DueCron[]> {
  return query<DueCron>(
    `select ${columns}, auth from @crons where enabled and next_run_at <= now() order by next_run_at limit 20`,
  );
}

/**
 * Moves a cron on to its next time and does `act` in the same transaction, unless another replica was first: each time is
 * fired once. Times in JavaScript have no microseconds.
 */
export function fire(
  database: Database,
  cron: Cron,
  next: Date | null,
  act: (query: Query) => Promise<void>,
): Promise<boolean> {
  return database.transaction(async (query) => {
    const moved = await query(
      `update @crons set next_run_at = $3 where cron_id = $1 and date_trunc('milliseconds', next_run_at) = $2 and enabled returning 1`,
      [cron.cron_id, cron.next_run_date, next],
    );
    if (moved.length === 0) return false;
    await act(query);
    return true;
  });
}
