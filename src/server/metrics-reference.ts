import { createMetrics } from "../telemetry/metrics.ts";
import { deploymentMetrics } from "./deployment-metrics.ts";

/** docs/reference/metrics.md, from what `GET /metrics` answers. */
export async function metricsReference(): Promise<string> {
  const { registry } = createMetrics();
  const own = (await registry.metrics()).split("\n");
  // prom-client keeps the labels there, and its types do not say so.
  const metrics = registry.getMetricsAsArray() as unknown as { name: string; labelNames: string[] }[];
  const labels = new Map(metrics.map(({ name, labelNames }) => [name, labelNames]));
  return `# Metrics

What \`GET /metrics\` answers, for Prometheus. Written by \`npm run generate\` from the code; counters begin at 0 with each start of
a server. [deploy/grafana/pierhead.json](../../deploy/grafana/pierhead.json) is a dashboard of them.

## The server

${tableOf(own, (name) => labels.get(name) ?? [])}

## Its deployments

Labels of each: \`deployment_id\` and \`deployment\`, the slug; answers also have \`status\`, failures \`cause\`. Shown on a
loopback address, elsewhere to those who send \`Authorization: Bearer\` with \`PIERHEAD_METRICS_TOKEN\`.

${tableOf(deploymentMetrics([], []).split("\n"), () => [])}

## The process

What every Node.js process tells: \`process_*\` (processor time, memory, open files) and \`nodejs_*\` (event loop delay, heap,
garbage collection). The delay of the event loop is looked at every 0.1 s and is told with those 0.1 s.
`;
}

/** From the lines `# HELP name words` and `# TYPE name type`. */
function tableOf(lines: string[], labelsOf: (name: string) => readonly string[]): string {
  const types = new Map(
    lines.flatMap((line) => {
      const [, name, type] = /^# TYPE (\S+) (\S+)/.exec(line) ?? [];
      return name === undefined ? [] : [[name, type] as const];
    }),
  );
  const rows = lines.flatMap((line) => {
    const [, name = "", help = ""] = /^# HELP (pierhead_\S+) (.*)/.exec(line) ?? [];
    if (name === "") return [];
    const labels = labelsOf(name)
      .map((label) => `\`${label}\``)
      .join(", ");
    return [`| \`${name}\` | ${types.get(name)} | ${labels} | ${help} |`];
  });
  return ["| Metric | Type | Labels | Meaning |", "|---|---|---|---|", ...rows].join("\n");
}
