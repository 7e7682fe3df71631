import type { Traffic } from "../../../src/contract/logs/metrics.ts";

export type DeploymentTraffic = Traffic["deployments"][number];

const [width, height, base] = [120, 30, 22];

/** The share of errors from which a day counts as bad. */
const badShare = 0.01;

/** The requests of a day: their number, the share of errors, and both by hour as a line. */
export function TrafficCell({ traffic }: { traffic: DeploymentTraffic | undefined }) {
  if (traffic === undefined) return null;
  const requests = sumOf(traffic.requests);
  const errors = sumOf(traffic.errors);
  return (
    <div className="day">
      {/* A flat line beside "0" would say nothing more. */}
      {requests > 0 && <TrafficSpark traffic={traffic} />}
      <span className="day-text">
        {requests === 0 ? (
          <span className="softer">No requests</span>
        ) : (
          <>
            <span>{requests.toLocaleString("en")}</span>
            <span className={errors > requests * badShare ? "bad-text" : "softer"}>
              {shareText(errors / requests)} % errors
            </span>
          </>
        )}
      </span>
    </div>
  );
}

/**
 * A line of the requests, with a tick below for each hour with errors. The text beside it is what screen readers read. The hour that
 * is not over would end each line with a fall, so it is drawn only if there was no request before it.
 */
function TrafficSpark({ traffic: { requests, errors } }: { traffic: DeploymentTraffic }) {
  const whole = requests.slice(0, -1);
  const drawn = sumOf(whole) > 0 ? whole : requests;
  const top = Math.max(...drawn, 1);
  const step = width / (drawn.length - 1);
  const points = drawn.map(
    (count, hour) => `${(hour * step).toFixed(1)} ${(base - (base - 3) * (count / top)).toFixed(1)}`,
  );
  const line = `M${points.join("L")}`;
  return (
    <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      <path className="spark-area" d={`${line}L${width} ${base}L0 ${base}Z`} />
      <path className="spark-line" d={line} vectorEffect="non-scaling-stroke" />
      {errors.map(
        (count, hour) =>
          count > 0 && (
            <rect
              // biome-ignore lint/suspicious/noArrayIndexKey: an hour is its place
              key={hour}
              className="spark-error"
              x={Math.min(width - 3, Math.max(0, hour * step - 1.5))}
              y={base + 2}
              width="3"
              height="6"
              rx="1"
            />
          ),
      )}
    </svg>
  );
}

export const sumOf = (counts: number[]) => counts.reduce((total, count) => total + count, 0);

/** Returns a share in percent with two significant digits. Only no errors at all read as 0. */
export function shareText(share: number): string {
  if (share === 0) return "0";
  return share < 0.0001 ? "< 0.01" : String(Number((100 * share).toPrecision(2)));
}
