import assert from "node:assert/strict";
import { test } from "node:test";
import { latencyBoundsMs } from "../../src/contract/logs/metrics.ts";
import {
  type AlertFacts,
  type ChangedRule,
  firingAlerts,
  rulesOf,
  rulesOfDeployment,
} from "../../src/domain/alert-rules.ts";
import { firingSubjectAlerts, type ServerFacts } from "../../src/domain/subject-alerts.ts";

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
const kinds = (facts: Partial<AlertFacts>, workspaces: ChangedRule[] = []) =>
  firingAlerts([{ ...well, ...facts }], { workspaces, deployments: [] }).map(({ kind }) => kind);

test("rules about health hold for their status, `degraded` after five minutes", () => {
  assert.deepEqual(kinds({}), []);
  assert.deepEqual(kinds({ health: "crash_looping", healthMinutes: 0 }), ["crash_looping"]);
  assert.deepEqual(kinds({ health: "failed", healthMinutes: 0 }), ["failed"]);
  assert.deepEqual(kinds({ health: "degraded", healthMinutes: 4.9 }), []);
  assert.deepEqual(kinds({ health: "degraded", healthMinutes: 5 }), ["degraded"]);
});

test("restarts of a crash loop raise an alert of their own only while its rule is off or does not fire yet", () => {
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
    const changes = { workspaces: [rule], deployments: [] };
    return firingAlerts([{ ...well, requests: 20, latencyCounts }], changes).map(({ message }) => message);
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

test("a deployment's own rule replaces the one of its workspace, in what it changes", () => {
  const workspaces = [{ tenantId: "workspace", kind: "error_share", enabled: true, threshold: 50 } as const];
  const own = { deploymentId: "deployment", kind: "error_share", enabled: null, threshold: 5 } as const;
  const fires = (deployments: Parameters<typeof firingAlerts>[1]["deployments"]) =>
    firingAlerts([{ ...well, requests: 20, errors: 2 }], { workspaces, deployments }).length > 0;
  assert.equal(fires([]), false);
  assert.equal(fires([own]), true);
  assert.equal(fires([{ ...own, deploymentId: "other" }]), false);
  assert.equal(fires([{ ...own, enabled: false }]), false);
  const rules = rulesOfDeployment(rulesOf(workspaces), [own]);
  assert.deepEqual(
    rules.filter(({ set_by }) => set_by !== "default").map(({ kind, threshold, set_by }) => [kind, threshold, set_by]),
    [["error_share", 5, "deployment"]],
  );
  assert.ok(!rules.some(({ kind }) => kind === "disk_used"), "a deployment has no disk of a server");
});

const now = new Date("2026-11-20T10:00:00Z");
const inDays = (days: number) => new Date(now.getTime() + days * 86_400_000);
const gib = 1024 ** 3;
const subjects = (facts: Partial<Parameters<typeof firingSubjectAlerts>[0]>) =>
  firingSubjectAlerts({ now, keys: [], servers: [], ...facts }, { workspaces: [], deployments: [] });

test("a disk raises an alert when 90 % are used and little is free, and keeps it until it has recovered", () => {
  const server: ServerFacts = {
    ...{ tenantId: "workspace", server: "s-1", name: "host-1", diskSizeBytes: 50 * gib, diskFreeBytes: 5 * gib },
    ...{ isDiskFiring: false, certificates: [] },
  };
  const fires = (changed: Partial<ServerFacts>) => subjects({ servers: [{ ...server, ...changed }] }).length > 0;
  const [alert] = subjects({ servers: [server] });
  assert.deepEqual([alert?.kind, alert?.deploymentId, alert?.subject], ["disk_used", null, "host-1"]);
  assert.match(alert?.message ?? "", /host-1 is 90 % full: 5\.0 of 50\.0 GiB are free/);
  assert.equal(fires({ diskFreeBytes: 5.5 * gib }), false);
  assert.equal(fires({ diskFreeBytes: 5.5 * gib, isDiskFiring: true }), true);
  assert.equal(fires({ diskFreeBytes: 6.5 * gib, isDiskFiring: true }), false);
  assert.equal(fires({ diskSizeBytes: 4_000 * gib, diskFreeBytes: 100 * gib }), false, "a large disk has room");
});

test("certificates and keys raise an alert in time, short-lived keys do not", () => {
  const server = { tenantId: "workspace", server: "s-1", name: "a", diskSizeBytes: gib, diskFreeBytes: gib };
  const certificate = (days: number) => ({ host: "pierhead.example.org", expires_at: inDays(days).toISOString() });
  const withCertificate = (days: number) =>
    subjects({ servers: [{ ...server, isDiskFiring: false, certificates: [certificate(days)] }] });
  assert.deepEqual(withCertificate(15), []);
  assert.match(withCertificate(14)[0]?.message ?? "", /pierhead\.example\.org expires on 2026-12-04 10:00 UTC/);
  assert.match(withCertificate(-1)[0]?.message ?? "", /expired on 2026-11-19 10:00 UTC/);
  const elsewhere = { ...certificate(1), tenant_id: "another" };
  const [ofAgent] = subjects({ servers: [{ ...server, isDiskFiring: false, certificates: [elsewhere] }] });
  assert.equal(ofAgent?.tenantId, "another", "the workspace whose agents have this address");
  const key = (createdDays: number, expiresDays: number) =>
    subjects({
      keys: [
        {
          ...{ tenantId: "workspace", id: "0c2f9a4e-1", name: "ci" },
          ...{ createdAt: inDays(createdDays), expiresAt: inDays(expiresDays) },
        },
      ],
    });
  assert.deepEqual(key(-80, 8), []);
  assert.match(key(-80, 7)[0]?.message ?? "", /The API key ci \(0c2f9a4e\) expires on 2026-11-27/);
  assert.deepEqual(key(0, 1), [], "it was made for a day");
});
