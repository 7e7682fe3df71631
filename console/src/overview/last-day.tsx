import { useQuery } from "@tanstack/react-query";
import type { MetricPoint } from "../../../src/contract/logs/metrics.ts";
import { Loading } from "../parts/notices.tsx";
import { Spark } from "../parts/spark.tsx";
import type { Deployment } from "../parts/words.ts";
import { useSession } from "../session.tsx";
import { CardHead, PartLink } from "./card-head.tsx";

const dayMs = 86_400_000;
const renewMs = 60_000;
const stepS = 600;

/** Numbers of the last 24 hours. A number that was not measured is a dash. */
export function LastDay({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const metrics = useQuery({
    queryKey: ["metrics", deployment.id, "day"],
    queryFn: ({ signal }) =>
      client.readMetrics(
        { deployment_id: deployment.id, step_s: stepS, start_time: new Date(Date.now() - dayMs).toISOString() },
        { signal },
      ),
    refetchInterval: renewMs,
  });
  const read = metrics.data?.points ?? [];
  // The line of a young deployment begins with its first measurement.
  const points = read.slice(
    Math.max(
      0,
      read.findIndex(({ replicas }) => replicas !== null),
    ),
  );
  const sum = (read: (point: MetricPoint) => number) => points.reduce((total, point) => total + read(point), 0);
  const [requests, errors] = [sum((point) => point.requests), sum((point) => point.errors)];
  const latest = (read: (point: MetricPoint) => number | null) =>
    points.slice(-2).findLast((point) => read(point) !== null);
  const p95 = latest((point) => point.p95_ms)?.p95_ms ?? null;
  const memory = latest((point) => point.memory_mib)?.memory_mib ?? null;
  const cpu = latest((point) => point.cpu_cores)?.cpu_cores ?? null;
  const isMeasured = points.some(({ replicas }) => replicas !== null) || requests > 0;
  const cells: { name: string; text: string; note: string; values: (number | null)[]; isBad?: boolean }[] = [
    {
      ...{ name: "Requests", text: isMeasured ? requests.toLocaleString("en") : "–", note: "in 24 hours" },
      values: points.map((point) => (point.replicas === null ? null : point.requests)),
    },
    {
      ...{
        name: "Errors",
        text: requests === 0 ? "–" : `${shareText(errors / requests)} %`,
        isBad: errors > requests / 50,
      },
      ...{
        note: `${errors.toLocaleString("en")} of them`,
        values: points.map((point) => (point.replicas === null ? null : point.errors)),
      },
    },
    {
      ...{ name: "Latency, p95", text: p95 === null ? "–" : latencyText(p95), note: "last 10 min" },
      values: points.map((point) => point.p95_ms),
    },
    {
      ...{ name: "Memory", text: memory === null ? "–" : `${Math.round(memory)} MiB` },
      ...{
        note: cpu === null ? "all replicas" : `${cpu.toFixed(2)} CPU cores`,
        values: points.map((point) => point.memory_mib),
      },
    },
  ];
  return (
    <section className="card" aria-label="Last 24 hours">
      <CardHead title="Last 24 hours">
        <PartLink deployment={deployment} part="charts" text="Metrics" />
      </CardHead>
      {isMeasured && (
        <dl className="vitals">
          {cells.map(({ name, text, note, values, isBad = false }) => (
            <div key={name} className={isBad ? "is-bad" : ""}>
              <dt>{name}</dt>
              <dd className="big">{text}</dd>
              <dd>
                <Spark values={values} />
              </dd>
              <dd className="softer">{note}</dd>
            </div>
          ))}
        </dl>
      )}
      {metrics.isPending && <Loading what="the numbers of the last day" />}
      {!isMeasured && metrics.isSuccess && (
        <p className="softer">The first measurements appear a minute after a revision begins to serve.</p>
      )}
    </section>
  );
}

const shareText = (share: number) => (share === 0 ? "0" : (100 * share).toPrecision(2));
const latencyText = (ms: number) => (ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`);
