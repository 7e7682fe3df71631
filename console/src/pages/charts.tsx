import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { MetricPoint } from "../../../src/contract/logs/metrics.ts";
import { Chart, type Line } from "../parts/chart.tsx";
import { CopyAs } from "../parts/copy-as.tsx";
import { Tabs } from "../parts/fields.tsx";
import { Failure, Loading, Notice } from "../parts/notices.tsx";
import { useSession } from "../session.tsx";

const spans = {
  "1 h": { hours: 1, stepS: 60 },
  "6 h": { hours: 6, stepS: 60 },
  "1 d": { hours: 24, stepS: 300 },
  "7 d": { hours: 168, stepS: 1_800 },
};
type Span = keyof typeof spans;

/** Listeners measure once a minute. */
const renewMs = 30_000;

const charts: { title: string; unit: string; lines: (point: MetricPoint) => (number | null)[]; names: string[] }[] = [
  { title: "Requests", unit: "", names: ["requests", "errors"], lines: ({ requests, errors }) => [requests, errors] },
  {
    title: "Latency",
    unit: "ms",
    names: ["p50", "p95", "p99"],
    lines: ({ p50_ms, p95_ms, p99_ms }) => [p50_ms, p95_ms, p99_ms],
  },
  { title: "CPU", unit: "cores", names: ["cores"], lines: ({ cpu_cores }) => [cpu_cores] },
  { title: "Memory", unit: "MiB", names: ["MiB"], lines: ({ memory_mib }) => [memory_mib] },
  {
    title: "Replicas",
    unit: "",
    names: ["replicas", "restarts"],
    lines: ({ replicas, restarts }) => [replicas, restarts],
  },
];

/** Charts of a deployment's metrics. A dashed line marks the time when a revision began to serve. */
export function ChartsPart({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const [span, setSpan] = useState<Span>("1 h");
  const { hours, stepS } = spans[span];
  const input = { deployment_id: deployment.id, step_s: stepS };
  const metrics = useQuery({
    queryKey: ["metrics", deployment.id, span],
    queryFn: ({ signal }) =>
      client.readMetrics({ ...input, start_time: new Date(Date.now() - hours * 3_600_000).toISOString() }, { signal }),
    refetchInterval: renewMs,
  });
  const events = useQuery({
    queryKey: ["deployment", deployment.id, "events"],
    queryFn: ({ signal }) =>
      client.listEvents(
        { deployment_ids: [deployment.id], types: ["revision.status"], order: "desc", limit: 1_000 },
        { signal },
      ),
  });
  if (metrics.isPending) return <Loading what="the charts" />;
  if (metrics.isError) return <Failure error={metrics.error} retry={() => void metrics.refetch()} />;
  const { points } = metrics.data;
  const deploys = (events.data?.events ?? [])
    .filter(({ data }) => data["to"] === "DEPLOYED")
    .map((event) => Date.parse(event.created_at));
  return (
    <>
      <div className="row spread">
        <Tabs
          label="Time range"
          value={span}
          onValue={setSpan}
          options={(Object.keys(spans) as Span[]).map((value) => ({ value, text: value }))}
        />
        <CopyAs call={{ id: "readMetrics", input }} />
      </div>
      {points.every(({ replicas }) => replicas === null) && (
        <Notice>
          There are no measurements in this time range. The first ones appear a minute after a revision begins to serve.
        </Notice>
      )}
      <div className="charts">
        {charts.map(({ title, unit, names, lines }) => (
          <Chart
            key={title}
            title={title}
            unit={unit}
            times={points.map(({ at }) => Date.parse(at))}
            lines={linesOf(points, names, lines)}
            markers={deploys}
          />
        ))}
      </div>
    </>
  );
}

function linesOf(points: MetricPoint[], names: string[], read: (point: MetricPoint) => (number | null)[]): Line[] {
  return names.map((name, index) => ({ name, values: points.map((point) => read(point)[index] ?? null) }));
}
