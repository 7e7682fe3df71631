import { errors } from "../../contract/error.ts";
import { metricPointsMax, trafficHours } from "../../contract/logs/metrics.ts";
import { operations } from "../../contract/operations.ts";
import { metricPoints } from "../../domain/metric-points.ts";
import { readMetricMinutes, readTraffic, type TrafficRow } from "../../store/data-plane/metric-minutes.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import { type Api, route } from "../http/route.ts";

const hourMs = 3_600_000;

export function addMetricsRoutes(api: Api): void {
  const { db } = api.deps;
  route(api, operations.readTraffic, async ({ principal, query }) => {
    const from = new Date((Math.floor(db.now().getTime() / hourMs) - trafficHours + 1) * hourMs);
    const rows = await readTraffic(db, principal.tenantId, query.deployment_ids ?? null, from);
    return { start_time: from.toISOString(), deployments: rows.map(trafficOf) };
  });
  route(api, operations.readMetrics, async ({ principal, params, query }) => {
    const { id } = await readDeployment(db, principal, params.deployment_id);
    const to = query.end_time ? new Date(query.end_time) : db.now();
    const from = query.start_time ? new Date(query.start_time) : new Date(to.getTime() - hourMs);
    const { step_s: stepS } = query;
    const points = (to.getTime() - from.getTime()) / 1_000 / stepS;
    if (points < 0) throw errors.invalidField("start_time", "must be before 'end_time'");
    if (points > metricPointsMax) {
      throw errors.invalidField(
        "step_s",
        `is too small: it gives more than ${metricPointsMax} points for this time range.`,
      );
    }
    const minutes = await readMetricMinutes(db, id, { from, to });
    return { deployment_id: id, step_s: stepS, points: metricPoints(minutes, { from, to, stepS }) };
  });
}

function trafficOf({ deployment_id, hours }: TrafficRow) {
  const requests = new Array<number>(trafficHours).fill(0);
  const errorCounts = new Array<number>(trafficHours).fill(0);
  for (const { hour, requests: asked, errors: failed } of hours) {
    if (hour < 0 || hour >= trafficHours) continue;
    requests[hour] = asked;
    errorCounts[hour] = failed;
  }
  return { deployment_id, requests, errors: errorCounts };
}
