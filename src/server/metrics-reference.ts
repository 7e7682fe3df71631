import { createMetrics } from "../telemetry/metrics.ts";
import { deploymentMetrics } from "./deployment-metrics.ts";

/** Returns docs/reference/metrics.md, from the output of `GET /metrics`. */
export async function metricsReference(): Promise<string> {
  const { registry } = createMetrics();
  const own = (await registry.metrics()).split("\n");
  // prom-client has the label names here, but its types omit them.
  const metrics = registry.getMetricsAsArray() as unknown as { name: string; labelNames: string[] }[];
  const labels = new Map(metrics.map(({ name, labelNames }) => [name, labelNames]));
  return `# Metrics

The response of \`GET /metrics\`, for Prometheus. \`npm run generate\` writes this page from the code. Counters start at 0 when a
server starts. [deploy/grafana/pierhead.json](../../deploy/grafana/pierhead.json) is a dashboard of these metrics.

## The server

${tableOf(own, (name) => labels.get(name) ?? [])}

## Its deployments

All have the labels \`deployment_id\` and \`deployment\` (the slug). Answers also have \`status\`, failures \`cause\`, health \`health\`. With
\`PIERHEAD_METRICS_TOKEN\` set, the response includes them for requests with \`Authorization: Bearer\` and that token. Without
it, \`PIERHEAD_ANONYMOUS_METRICS\` decides, which is on while the server is local.

${tableOf(deploymentMetrics([], []).split("\n"), () => [])}

## The process

The standard metrics of a Node.js process: \`process_*\` (CPU time, memory, open files) and \`nodejs_*\` (event loop delay, heap,
garbage collection). The event loop delay is sampled every 0.1 s and includes these 0.1 s.
`;
}

/** Builds the table from the lines `# HELP name words` and `# TYPE name type`. */
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
