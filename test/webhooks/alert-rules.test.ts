import assert from "node:assert/strict";
import { test } from "node:test";
import { latencyBoundsMs } from "../../src/contract/logs/metrics.ts";
import { type AlertFacts, firingAlerts, rulesOf } from "../../src/domain/alert-rules.ts";

const well: AlertFacts = {
  tenantId: "workspace",
  deploymentName: "support-bot",
  deploymentId: "deployment",
  health: "live",
  healthMinutes: 60,
  healthMessage: null,
  requests: 0,
  errors: 0,
  restarts: 0,
  queuedRuns: 0,
  latencyCounts: [],
};
const kinds = (facts: Partial<AlertFacts>, changed: Parameters<typeof firingAlerts>[1] = []) =>
  firingAlerts([{ ...well, ...facts }], changed).map(({ kind }) => kind);

test("rules about health hold for the word, the degraded one after five minutes", () => {
  assert.deepEqual(kinds({}), []);
  assert.deepEqual(kinds({ health: "crash_looping", healthMinutes: 0 }), ["crash_looping"]);
  assert.deepEqual(kinds({ health: "failed", healthMinutes: 0 }), ["failed"]);
  assert.deepEqual(kinds({ health: "degraded", healthMinutes: 4.9 }), []);
  assert.deepEqual(kinds({ health: "degraded", healthMinutes: 5 }), ["degraded"]);
});

test("the alert of a crash loop covers its restarts, and where that rule is off they raise the only alert", () => {
  const looping = { health: "crash_looping", healthMinutes: 1, restarts: 5 } as const;
  const rule = { tenantId: "workspace", kind: "crash_looping", enabled: false, threshold: null } as const;
  assert.deepEqual(kinds(looping), ["crash_looping"]);
  assert.deepEqual(kinds(looping, [rule]), ["restarts"]);
  assert.deepEqual(kinds(looping, [{ ...rule, enabled: true, threshold: 10 }]), ["restarts"], "it is not firing yet");
});

test("rules about traffic need twenty requests", () => {
  assert.deepEqual(kinds({ requests: 19, errors: 19 }), []);
  assert.deepEqual(kinds({ requests: 20, errors: 1 }), []);
  assert.deepEqual(kinds({ requests: 20, errors: 2 }), ["error_share"]);
  assert.deepEqual(kinds({ restarts: 5 }), ["restarts"]);
  const slow = latencyBoundsMs.map((bound) => (bound === latencyBoundsMs.at(-1) ? 20 : 0));
  assert.deepEqual(kinds({ requests: 20, latencyCounts: slow }), [], "the rule is off by default");
  const rule = { tenantId: "workspace", kind: "latency_p95", enabled: true, threshold: null } as const;
  assert.deepEqual(kinds({ requests: 20, latencyCounts: slow }, [rule]), ["latency_p95"]);
  assert.deepEqual(kinds({ requests: 20, latencyCounts: slow }, [{ ...rule, tenantId: "other" }]), []);
});

test("a queue of fifty runs raises an alert", () => {
  assert.deepEqual(kinds({ queuedRuns: 49 }), []);
  assert.deepEqual(kinds({ queuedRuns: 50 }), ["queued_runs"]);
});

test("the latency rule compares the interpolated percentile, at most 300,000 ms", () => {
  const alerts = (threshold: number, bucket: number) => {
    const latencyCounts = [...latencyBoundsMs, Number.POSITIVE_INFINITY].map((_, at) => (at === bucket ? 20 : 0));
    const rule = { tenantId: "workspace", kind: "latency_p95", enabled: true, threshold } as const;
    return firingAlerts([{ ...well, requests: 20, latencyCounts }], [rule]).map(({ message }) => message);
  };
  const upTo = (ms: (typeof latencyBoundsMs)[number]) => latencyBoundsMs.indexOf(ms);
  // 19 of 20 requests lie below 95 % of the bucket from 2,500 to 5,000 ms.
  assert.deepEqual(alerts(4_875, upTo(5_000)), ["The 95th percentile of the latency is 4875 ms."]);
  assert.deepEqual(alerts(4_876, upTo(5_000)), []);
  assert.deepEqual(alerts(300_000, latencyBoundsMs.length), [
    "The 95th percentile of the latency is 300000 ms or more.",
  ]);
});

test("a changed rule keeps the default of what was not changed", () => {
  const [, , degraded] = rulesOf([{ kind: "degraded", enabled: false, threshold: null }]);
  assert.deepEqual([degraded?.kind, degraded?.enabled, degraded?.threshold], ["degraded", false, 5]);
});
