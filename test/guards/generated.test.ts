import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { doctorChecks } from "../../src/cli/tools/doctor.ts";
import { gatewayRules, listenerRules, programRules } from "../../src/compute/kubernetes/install/role.ts";
import { configurationReference } from "../../src/server/config-reference.ts";
import { deploymentMetrics } from "../../src/server/deployment-metrics.ts";
import { metricsReference } from "../../src/server/metrics-reference.ts";

test("the configuration page is what the code makes of its settings", () => {
  const page = readFileSync("docs/reference/configuration.md", "utf8");
  assert.equal(page, configurationReference(), "run: npm run generate");
});

test("the chart's Roles are those that the tests run under", () => {
  for (const [name, rules] of [
    ["rules.json", listenerRules] as const,
    ["gateway-rules.json", gatewayRules] as const,
    ["program-rules.json", programRules] as const,
  ]) {
    const file = readFileSync(`deploy/helm/pierhead-listener/files/${name}`, "utf8");
    assert.equal(file, `${JSON.stringify(rules, null, 2)}\n`, "run: npm run generate");
  }
});

test("the catalogue of metrics is what a server answers, and the dashboard shows all of it and nothing else", async () => {
  const page = readFileSync("docs/reference/metrics.md", "utf8");
  assert.equal(page, await metricsReference(), "run: npm run generate");
  const known = [...page.matchAll(/^\| `(pierhead_\w+)`/gm)].map(([, name]) => name);
  const dashboard = readFileSync("deploy/grafana/pierhead.json", "utf8");
  const shown = [...dashboard.matchAll(/pierhead_\w+/g)].map(([name]) => name.replace(/_(bucket|sum|count)$/, ""));
  assert.deepEqual([...new Set(shown)].sort(), known.sort());
});

test("the dashboard does not add up what every server reports, and shows the processes of Pierhead only", () => {
  const { panels } = JSON.parse(readFileSync("deploy/grafana/pierhead.json", "utf8")) as {
    panels: { title: string; targets?: { expr: string }[] }[];
  };
  const asked = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  const levels = deploymentMetrics([], []).matchAll(/^# TYPE (pierhead_deployment_\w+) gauge$/gm);
  for (const [, level = ""] of levels) {
    const own = level === "pierhead_deployment_requests_in_flight";
    const found = asked.filter((expr) => expr.includes(`${level}{`));
    assert.ok(found.length > 0, level);
    for (const expr of found)
      assert.match(expr, own ? /^sum by/ : /^max by/, "levels are in the database, which all read");
  }
  const processes = asked.filter((expr) => /\bprocess_/.test(expr));
  assert.ok(processes.length > 0);
  for (const expr of processes)
    assert.match(expr, /and on \(job, instance\) pierhead_/, "every exporter tells of its process");
});

test("the runbook has a row for every check of doctor, in its order", () => {
  const page = readFileSync("docs/guides/operations.md", "utf8");
  const rows = [...page.slice(page.indexOf("## Runbook")).matchAll(/^\| `([^`]+)`/gm)].map(([, name]) => name);
  assert.deepEqual(rows, [...doctorChecks]);
});
