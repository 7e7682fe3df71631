import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Event } from "../../../src/contract/logs/event.ts";
import type { MetricPoint } from "../../../src/contract/logs/metrics.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { Chart, type Line, type Marker, timeText } from "../parts/chart.tsx";
import { CopyAs } from "../parts/copy-as.tsx";
import { Tabs } from "../parts/fields.tsx";
import { Empty, Failure, Loading } from "../parts/notices.tsx";
import { numberText, titleOf } from "../parts/revision-words.tsx";
import { limitsOf, type ReplicaLimits } from "../replica-limits.ts";
import { type ChartRange, chartRanges } from "../search.ts";
import { useSession } from "../session.tsx";

/** Listeners measure once a minute. */
const renewMs = 30_000;
const dayMs = 86_400_000;

const count = (value: number) => value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });
const duration = (ms: number) => (ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`);
const cores = (value: number) => value.toFixed(2);
const mebibytes = (value: number) => `${Math.round(value).toLocaleString("en")} MiB`;

interface Series {
  name: string;
  read: (point: MetricPoint) => number | null;
  isBad?: boolean;
}

interface ChartPlan {
  title: string;
  format: (value: number) => string;
  least: number;
  series: Series[];
  /** Left out while nothing is measured: not every agent server counts its runs and tokens, and not every host measures CPU and memory. */
  isOptional?: boolean;
  /** The lines count what happened between two points, whose distance the chart shows. */
  isCount?: boolean;
  /** The limit of one replica, if its host enforces one. */
  limit?: keyof ReplicaLimits;
  /** The series that is compared with the day before. Default: the first one. */
  compared?: number;
}

const charts: ChartPlan[] = [
  {
    title: "Requests",
    format: count,
    least: 10,
    isCount: true,
    series: [
      { name: "requests", read: ({ requests, replicas }) => (replicas === null && requests === 0 ? null : requests) },
      {
        name: "errors",
        read: ({ requests, errors, replicas }) => (replicas === null && requests === 0 ? null : errors),
        isBad: true,
      },
    ],
  },
  {
    title: "Latency",
    format: duration,
    least: 100,
    compared: 1,
    series: [
      { name: "p50", read: ({ p50_ms }) => p50_ms },
      { name: "p95", read: ({ p95_ms }) => p95_ms },
      { name: "p99", read: ({ p99_ms }) => p99_ms },
    ],
  },
  {
    ...{ title: "CPU, cores", format: cores, least: 0.1, isOptional: true, limit: "cpuCores" },
    series: [{ name: "used", read: ({ cpu_cores }) => cpu_cores }],
  },
  {
    ...{ title: "Memory", format: mebibytes, least: 10, isOptional: true, limit: "memoryMib" },
    series: [{ name: "used", read: ({ memory_mib }) => memory_mib }],
  },
  {
    title: "Replicas",
    format: count,
    least: 2,
    series: [
      { name: "running", read: ({ replicas }) => replicas },
      { name: "restarts", read: ({ restarts }) => restarts, isBad: true },
    ],
  },
  {
    ...{ title: "Runs in progress", format: count, least: 5, isOptional: true },
    series: [
      { name: "running", read: ({ runs_running }) => runs_running },
      { name: "failed", read: ({ runs_failed }) => runs_failed, isBad: true },
    ],
  },
  {
    ...{ title: "Runs in the queue", format: count, least: 5, isOptional: true },
    series: [
      { name: "waiting", read: ({ runs_waiting }) => runs_waiting },
      { name: "recovered", read: ({ runs_recovered }) => runs_recovered },
    ],
  },
  {
    ...{ title: "Tokens", format: count, least: 100, isOptional: true, isCount: true },
    series: [
      // An older server that answers during an upgrade has none.
      { name: "input", read: ({ input_tokens = null }) => input_tokens },
      { name: "output", read: ({ output_tokens = null }) => output_tokens },
    ],
  },
];

/** Metrics of a deployment as charts with one shared point in time, or as a table. */
export function ChartsPart({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const { range = "1h" } = useSearch({ strict: false });
  const navigate = useNavigate();
  const show = (chosen: ChartRange) =>
    void navigate({
      to: "/o/$tenantId/host/deployments/$id/$part",
      params: { tenantId: deployment.tenant_id, id: deployment.id, part: "charts" },
      search: chosen === "1h" ? {} : { range: chosen },
      replace: true,
    });
  const [form, setForm] = useState<"charts" | "table">("charts");
  const { hours, stepS } = chartRanges[range];
  const input = { deployment_id: deployment.id, step_s: stepS };
  const metrics = useQuery({
    queryKey: ["metrics", deployment.id, range],
    queryFn: ({ signal }) =>
      client.readMetrics({ ...input, start_time: new Date(Date.now() - hours * 3_600_000).toISOString() }, { signal }),
    refetchInterval: renewMs,
  });
  const [isCompared, setCompared] = useState(false);
  // Metrics are kept for seven days, so the longest range has no day before.
  const mayCompare = hours <= 24;
  const earlier = useQuery({
    queryKey: ["metrics", deployment.id, range, "day before"],
    queryFn: ({ signal }) => {
      const nowMs = Date.now() - dayMs;
      const start_time = new Date(nowMs - hours * 3_600_000).toISOString();
      return client.readMetrics({ ...input, start_time, end_time: new Date(nowMs).toISOString() }, { signal });
    },
    enabled: isCompared && mayCompare,
  });
  const before = isCompared && mayCompare ? earlier.data?.points : undefined;
  const limits = useLimits(deployment);
  const markers = useMarkers(deployment.id, metrics.data?.points, stepS);
  return (
    <>
      <div className="row spread chart-acts">
        <div className="row">
          <Tabs
            label="Time range"
            value={range}
            onValue={show}
            options={(Object.keys(chartRanges) as ChartRange[]).map((value) => ({
              value,
              text: chartRanges[value].text,
            }))}
          />
          <Tabs
            label="Show as"
            value={form}
            onValue={setForm}
            options={[
              { value: "charts", text: "Charts" },
              { value: "table", text: "Table" },
            ]}
          />
          {mayCompare && (
            <label className="row">
              <input type="checkbox" checked={isCompared} onChange={({ target }) => setCompared(target.checked)} />
              Compare with the day before
            </label>
          )}
        </div>
        <CopyAs call={{ id: "readMetrics", input }} />
      </div>
      {metrics.isPending && <Loading what="the charts" />}
      {metrics.isError && <Failure error={metrics.error} retry={() => void metrics.refetch()} />}
      {metrics.data !== undefined && (
        <Found points={fromFirst(metrics.data.points)} {...{ before, stepS, markers, limits, form }} />
      )}
    </>
  );
}

const isMeasured = (value: number | null) => value !== null;

/** The fewest points of an axis, so that a line of a new deployment has room to grow. */
const pointsMin = 15;

/** Leaves out the time before the first measurement: the axis of a young deployment begins there. */
function fromFirst(points: MetricPoint[]): MetricPoint[] {
  const first = points.findIndex(({ replicas }) => replicas !== null);
  return points.slice(Math.max(0, Math.min(first - 1, points.length - pointsMin)));
}

interface FoundProps {
  points: MetricPoint[];
  /** The points of a day earlier. */
  before: MetricPoint[] | undefined;
  stepS: number;
  markers: Marker[];
  limits: ReplicaLimits | undefined;
  form: "charts" | "table";
}

function Found({ points, before, stepS, markers, limits, form }: FoundProps) {
  // The time, because each refetch begins later and moves the indexes.
  const [timeMs, setTime] = useState<number | null>(null);
  const times = useMemo(() => points.map((point) => Date.parse(point.at)), [points]);
  const index = timeMs === null ? -1 : times.indexOf(timeMs);
  const at = index < 0 ? null : index;
  const setAt = (to: number | null) => setTime(to === null ? null : (times[to] ?? null));
  const drawn = useMemo(
    () =>
      charts
        .map(({ series, compared = 0, isCount = false, limit, ...chart }) => ({
          ...chart,
          limit: limit && limitLine(limits?.[limit] ?? null, points),
          ...(isCount && { note: `in ${stepS / 60} min` }),
          before: before && beforeLine(before, points, series[compared], stepS),
          lines: series.map(({ name, read, isBad = false }): Line => ({ name, values: points.map(read), isBad })),
        }))
        .filter(({ isOptional = false, lines }) => !isOptional || lines.some(({ values }) => values.some(isMeasured))),
    [points, before, stepS, limits],
  );
  if (points.every(({ replicas }) => replicas === null))
    return (
      <Empty title="No measurements in this time range">
        <p>
          The first ones appear a minute after a revision begins to serve. Pierhead keeps requests, errors, latency, CPU
          and memory of every minute for seven days.
        </p>
      </Empty>
    );
  if (form === "table") return <MetricTable times={times} charts={drawn} markers={markers} />;
  return (
    <>
      <p className="softer marks">
        <span>
          <i className="mark revision" aria-hidden="true" /> a revision began to serve
        </span>
        <span>
          <i className="mark restart" aria-hidden="true" /> replicas restarted
        </span>
        <span>
          <i className="mark alert" aria-hidden="true" /> an alert fired
        </span>
      </p>
      <div className="charts">
        {drawn.map((chart) => (
          <Chart key={chart.title} {...chart} times={times} markers={markers} at={at} onAt={setAt} />
        ))}
      </div>
    </>
  );
}

/** Returns the limit of all replicas together, as the chart shows their use together. undefined: none is enforced. */
function limitLine(limit: number | null, points: MetricPoint[]): Line | undefined {
  if (limit === null) return undefined;
  return { name: "limit", values: points.map(({ replicas }) => (replicas === null ? null : limit * replicas)) };
}

function useLimits(deployment: Deployment): ReplicaLimits | undefined {
  const { client } = useSession();
  const found = useQuery({
    queryKey: ["deployment", deployment.id, "replicas"],
    queryFn: ({ signal }) => client.listReplicas({ deployment_id: deployment.id }, { signal }),
  });
  return useMemo(() => found.data && limitsOf(deployment, found.data.replicas), [deployment, found.data]);
}

/** Returns a series of the day before at the times of today. */
function beforeLine(before: MetricPoint[], points: MetricPoint[], series: Series | undefined, stepS: number) {
  if (series === undefined) return undefined;
  const stepOf = (at: string, laterMs: number) => Math.round((Date.parse(at) + laterMs) / (1_000 * stepS));
  const values = new Map(before.map((point) => [stepOf(point.at, dayMs), series.read(point)]));
  const line: Line = {
    name: `${series.name}, the day before`,
    values: points.map(({ at }) => values.get(stepOf(at, 0)) ?? null),
  };
  return line;
}

/** The charts as a table, newest first, for readers without sight and for copying. */
function MetricTable(props: {
  times: number[];
  charts: { title: string; format: (value: number) => string; lines: Line[] }[];
  markers: Marker[];
}) {
  const { times, charts: shown, markers } = props;
  const columns = shown.flatMap(({ title, format, lines }) => lines.map((line) => ({ title, format, ...line })));
  const happened = (index: number) => {
    const [from = 0, to = Number.POSITIVE_INFINITY] = [times[index], times[index + 1]];
    return markers.filter(({ at }) => at >= from && at < to).map(({ text }) => text);
  };
  return (
    <section
      className="card table-scroll"
      aria-label="Metrics as a table"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls needs the keyboard
      tabIndex={0}
    >
      <table>
        <thead>
          <tr>
            <th>Time</th>
            {columns.map(({ title, name }) => (
              <th key={`${title}${name}`}>
                {title}: {name}
              </th>
            ))}
            <th>What happened</th>
          </tr>
        </thead>
        <tbody>
          {times
            .map((time, index) => (
              <tr key={time}>
                <th scope="row">{timeText(time)}</th>
                {columns.map(({ title, name, format, values }) => {
                  const value = values[index] ?? null;
                  return <td key={`${title}${name}`}>{value === null ? "–" : format(value)}</td>;
                })}
                <td>{happened(index).join("; ")}</td>
              </tr>
            ))
            .reverse()}
        </tbody>
      </table>
    </section>
  );
}

const markedEvents = ["revision.status", "alert.firing"] as const;

/** Returns what happened to the deployment: revisions that began to serve, restarts and alerts. */
function useMarkers(deploymentId: string, points: MetricPoint[] | undefined, stepS: number): Marker[] {
  const { client } = useSession();
  const events = useQuery({
    queryKey: ["deployment", deploymentId, "marked-events"],
    queryFn: ({ signal }) =>
      client.listEvents(
        { deployment_ids: [deploymentId], types: [...markedEvents], order: "desc", limit: 1_000 },
        { signal },
      ),
  });
  const revisions = useQuery({
    queryKey: ["deployment", deploymentId, "marked-revisions"],
    queryFn: ({ signal }) => client.listRevisions({ deployment_id: deploymentId, limit: 100 }, { signal }),
  });
  return useMemo(
    () => [
      ...(events.data?.events ?? []).flatMap((event) => markerOf(event, revisions.data?.resources ?? [])),
      ...(points ?? [])
        .filter(({ restarts }) => restarts > 0)
        .map(({ at, restarts }): Marker => {
          const times = restarts === 1 ? "1 restart" : `${restarts} restarts`;
          return { kind: "restart", at: Date.parse(at), text: `${times} in ${stepS / 60} min` };
        }),
    ],
    [events.data, revisions.data, points, stepS],
  );
}

function markerOf({ type, data, created_at, revision_id: id }: Event, revisions: Revision[]): Marker[] {
  const at = Date.parse(created_at);
  if (type === "alert.firing")
    return [{ kind: "alert", at, text: `Alert: ${String(data["message"] ?? data["rule"] ?? "")}` }];
  if (data["to"] !== "DEPLOYED") return [];
  const revision = revisions.find((one) => one.id === id);
  if (revision === undefined) return [{ kind: "revision", at, text: "A revision began to serve" }];
  const label = numberText(revision);
  return [{ kind: "revision", at, label, text: `Revision ${label} began to serve: ${titleOf(revision)}` }];
}
