import type { HealthWord } from "../../contract/deployments/health.ts";
import { errors } from "../../contract/error.ts";
import { type MetricSample, trafficDeploymentsMax } from "../../contract/logs/metrics.ts";
import type { MetricMinute } from "../../domain/metric-points.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { recordColumns, selectList } from "../engine/table.ts";
import { metricMinutesTable } from "./tables.ts";

const { sampled_at, ...measured } = metricMinutesTable.columns;
const sampled = recordColumns(measured);
const minuteColumns = selectList({ ...measured, sampled_at });

/** Largest integer of the database. */
const integerMax = 2_147_483_647;

type Count = "restarts" | "requests" | "errors" | "runs_failed" | "runs_recovered" | "input_tokens" | "output_tokens";

/** `least` ignores null. */
function sumOf(name: Count) {
  const [stored, added] = [sql.identifier(`m.${name}`), sql.identifier(`excluded.${name}`)];
  return sql`case when ${stored} is null or ${added} is null then coalesce(${stored}, ${added})
             else least(${stored}::bigint + ${added}, ${integerMax}) end`;
}

/**
 * A listener is a program of a user, and agents report their runs and tokens themselves. A number that does not fit must not cost the
 * samples of other deployments.
 */
function withStorableCounts(sample: MetricSample): MetricSample {
  const atMost = (count: number) => Math.min(count, integerMax);
  const storable = (count: number | null | undefined) => (count == null ? null : atMost(count));
  const { replicas, restarts, requests, errors: failed, latency_counts } = sample;
  const { runs_waiting, runs_running, runs_failed, runs_recovered, input_tokens, output_tokens } = sample;
  return {
    ...sample,
    ...{ replicas: atMost(replicas), restarts: atMost(restarts), requests: atMost(requests), errors: atMost(failed) },
    latency_counts: latency_counts.map(atMost),
    runs_waiting: storable(runs_waiting),
    runs_running: storable(runs_running),
    runs_failed: storable(runs_failed),
    runs_recovered: storable(runs_recovered),
    input_tokens: storable(input_tokens),
    output_tokens: storable(output_tokens),
  };
}

/**
 * Adds samples to the minutes in which they end. If a minute already has one (the listener was restarted), counts are
 * added and levels take the maximum. The sample that was added last is not added again, because its response may have been
 * lost. Samples of other listeners' deployments are ignored, and so are those of a time more than a day ahead: no clock of a listener
 * needs them, and they would never be deleted. The epoch is checked in the same statement: with 10,000
 * deployments, samples arrive in ten calls a minute.
 * @throws ApiError 409 `staleEpoch` unless `epoch` is the newest of this listener; nothing is written then.
 */
export async function addMetricSamples(
  db: Db,
  { listenerId, epoch }: { listenerId: string; epoch: number },
  samples: MetricSample[],
): Promise<void> {
  const { rows } = await db.query<{ isNewest: boolean }>(sql`
    with session as (
      select id as listener_id from listeners where id = ${listenerId} and epoch = ${epoch}
    ), sample as (
      select distinct on (s.deployment_id, date_trunc('minute', s.at))
             s.deployment_id, date_trunc('minute', s.at) as at, s.replicas, s.cpu_cores, s.memory_mib, s.restarts,
             s.requests, s.errors, s.latency_counts, s.runs_waiting, s.runs_running, s.runs_failed, s.runs_recovered,
             s.input_tokens, s.output_tokens, s.replica_usage, s.at as sampled_at
        from jsonb_to_recordset(${JSON.stringify(samples.map(withStorableCounts))}::jsonb)
          as s ${sampled}
        join deployments d on d.id = s.deployment_id
        join session using (listener_id)
       where s.at < now() + interval '1 day'
       order by s.deployment_id, date_trunc('minute', s.at), s.at
    ), used as (
      update deployments d set used_at = s.at
        from (select deployment_id, max(at) as at from sample where requests > 0 group by deployment_id) s
       where d.id = s.deployment_id and coalesce(d.used_at, '-infinity') < s.at - interval '1 hour'
    ), added as (
      insert into metric_minutes as m
        (${minuteColumns})
      select ${minuteColumns} from sample
      on conflict (deployment_id, at) do update set
        replicas = greatest(m.replicas, excluded.replicas), cpu_cores = greatest(m.cpu_cores, excluded.cpu_cores),
        memory_mib = greatest(m.memory_mib, excluded.memory_mib), restarts = ${sumOf("restarts")},
        requests = ${sumOf("requests")}, errors = ${sumOf("errors")},
        latency_counts = array(
          select least(a::bigint + b, ${integerMax})::integer from unnest(m.latency_counts, excluded.latency_counts) with ordinality as pair (a, b, place)
           order by place),
        runs_waiting = greatest(m.runs_waiting, excluded.runs_waiting),
        runs_running = greatest(m.runs_running, excluded.runs_running),
        runs_failed = ${sumOf("runs_failed")}, runs_recovered = ${sumOf("runs_recovered")},
        input_tokens = ${sumOf("input_tokens")}, output_tokens = ${sumOf("output_tokens")},
        replica_usage = excluded.replica_usage,
        sampled_at = excluded.sampled_at
      where m.sampled_at is distinct from excluded.sampled_at
    )
    select exists (select from session) as "isNewest"`);
  if (!rows[0]?.isNewest) throw errors.staleEpoch();
}

/** Returns the minutes of one deployment, oldest first. The caller has checked access to it. */
export async function readMetricMinutes(
  db: Db,
  deploymentId: string,
  range: { from: Date; to: Date },
): Promise<MetricMinute[]> {
  const { rows } = await db.query<MetricMinute>(sql`
    select at, replicas, cpu_cores as "cpuCores", memory_mib as "memoryMib", restarts, requests, errors,
           latency_counts as "latencyCounts", runs_waiting as "runsWaiting", runs_running as "runsRunning",
           runs_failed as "runsFailed", runs_recovered as "runsRecovered", input_tokens as "inputTokens",
           output_tokens as "outputTokens"
      from metric_minutes where deployment_id = ${deploymentId} and at >= ${range.from} and at < ${range.to}
     order by at`);
  return rows;
}

export interface TrafficRow {
  deployment_id: string;
  /** Hours with samples, counted from the start. */
  hours: { hour: number; requests: number; errors: number }[];
}

/** Returns requests and errors by hour since `from` of those deployments that the tenant has, in the given order. `ids` null: the newest. */
export async function readTraffic(db: Db, tenantId: string, ids: string[] | null, from: Date): Promise<TrafficRow[]> {
  const { rows } = await db.query<TrafficRow>(sql`
    select d.id as deployment_id, coalesce(t.hours, '[]') as hours
      from (select id, seq from deployments
             where (${ids}::uuid[] is null or id = any(${ids}::uuid[])) and tenant_id = ${tenantId}
             order by array_position(${ids}::uuid[], id), seq desc limit ${trafficDeploymentsMax}) d left join lateral (
        select json_agg(json_build_object('hour', h.hour, 'requests', h.requests, 'errors', h.errors)) as hours
          from (select floor(extract(epoch from m.at - ${from}::timestamptz) / 3600)::integer as hour,
                       sum(m.requests) as requests, sum(m.errors) as errors
                  from metric_minutes m where m.deployment_id = d.id and m.at >= ${from} group by 1) h) t on true
     order by array_position(${ids}::uuid[], d.id), d.seq desc`);
  return rows;
}

export interface LatestMetrics {
  deploymentId: string;
  slug: string;
  health: HealthWord;
  /** This and the rest: null without a report in the last three minutes; older values are not current. */
  replicas: number | null;
  cpuCores: number | null;
  memoryMib: number | null;
  runsWaiting: number | null;
  runsRunning: number | null;
  runsFailed: number | null;
  runsRecovered: number | null;
  /** null: the server does not report tokens. */
  inputTokens: number | null;
  outputTokens: number | null;
}

/** Returns the health of every deployment, and its newest minute. */
export async function readLatestMetrics(db: Db): Promise<LatestMetrics[]> {
  const { rows } = await db.query<LatestMetrics>(sql`
    select d.id as "deploymentId", d.slug, d.health, m.replicas, m.cpu_cores as "cpuCores", m.memory_mib as "memoryMib",
           m.runs_waiting as "runsWaiting", m.runs_running as "runsRunning", m.runs_failed as "runsFailed",
           m.runs_recovered as "runsRecovered", m.input_tokens as "inputTokens", m.output_tokens as "outputTokens"
      from deployments d left join (
        select distinct on (deployment_id) deployment_id, replicas, cpu_cores, memory_mib, runs_waiting, runs_running,
               runs_failed, runs_recovered, input_tokens, output_tokens
          from metric_minutes where at > now() - interval '3 minutes' order by deployment_id, at desc
      ) m on m.deployment_id = d.id order by d.id`);
  return rows;
}
