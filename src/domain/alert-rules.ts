import {
  type AlertKind,
  type AlertRule,
  alertKinds,
  type DeploymentAlertKind,
  isDeploymentAlertKind,
} from "../contract/alerts/alert.ts";
import type { HealthWord } from "../contract/deployments/health.ts";
import { latencyBoundsMs } from "../contract/logs/metrics.ts";
import { withDeploymentName } from "./deployment-health.ts";
import { quantileMs } from "./metric-points.ts";

/** Rules of a workspace that changed none. The latency that is too slow depends on the agent, so that rule is off. */
export const defaultRules: Record<AlertKind, Omit<AlertRule, "kind" | "default_threshold" | "set_by">> = {
  crash_looping: {
    enabled: true,
    threshold: 0,
    unit: "minutes",
    summary: "The agent server ends soon after each start.",
  },
  failed: { enabled: true, threshold: 0, unit: "minutes", summary: "No revision of the deployment could start." },
  degraded: { enabled: true, threshold: 5, unit: "minutes", summary: "The deployment is degraded for this long." },
  error_share: { enabled: true, threshold: 10, unit: "percent", summary: "Share of failed requests in ten minutes." },
  latency_p95: { enabled: false, threshold: 5_000, unit: "milliseconds", summary: "95th percentile in ten minutes." },
  restarts: { enabled: true, threshold: 5, unit: "count", summary: "Restarts of replicas in ten minutes." },
  queued_runs: { enabled: true, threshold: 50, unit: "count", summary: "Runs that wait in the queue for ten minutes." },
  disk_used: {
    enabled: true,
    threshold: 90,
    unit: "percent",
    summary: "Share of the disk of a server's data directory that is used, with less than 10 GiB free.",
  },
  certificate_expiry: {
    enabled: true,
    threshold: 14,
    unit: "days",
    summary: "A certificate of the server, of a listener's domain or of a custom_url expires within this time.",
  },
  key_expiry: { enabled: true, threshold: 7, unit: "days", summary: "An API key expires within this time." },
};

export const alertWindowMinutes = 10;

/** Fewer requests say nothing about a share or a percentile. */
export const requestsMin = 20;

/** A queue with fewer measured minutes of the window is not known to be long. */
export const queueMinutesMin = 8;

/** Resolved alerts are stored for this long. */
export const resolvedAlertDays = 30;

/** A rule that a workspace has changed. */
export interface ChangedRule {
  tenantId: string;
  kind: AlertKind;
  enabled: boolean;
  threshold: number | null;
}

/** A rule that differs for one deployment. null: as the workspace has it. */
export interface DeploymentRule {
  deploymentId: string;
  kind: DeploymentAlertKind;
  enabled: boolean | null;
  threshold: number | null;
}

/** Every rule that differs from the defaults. */
export interface RuleChanges {
  workspaces: readonly ChangedRule[];
  deployments: readonly DeploymentRule[];
}

/** Returns the workspaces and deployments whose latency rule is on. It is off by default. */
export function withLatencyRule({ workspaces, deployments }: RuleChanges): {
  tenantIds: string[];
  deploymentIds: string[];
} {
  const isOn = ({ kind, enabled }: { kind: AlertKind; enabled: boolean | null }) => kind === "latency_p95" && enabled;
  return {
    tenantIds: workspaces.filter(isOn).map(({ tenantId }) => tenantId),
    deploymentIds: deployments.filter(isOn).map(({ deploymentId }) => deploymentId),
  };
}

/** What rules need to know about one deployment. */
export interface AlertFacts {
  tenantId: string;
  deploymentId: string;
  deploymentName: string;
  health: HealthWord;
  healthMinutes: number;
  healthMessage: string | null;
  /** Of the last ten minutes. */
  requests: number;
  errors: number;
  restarts: number;
  /** The shortest queue of the last ten minutes; 0 also where it is not known. */
  queuedRuns: number;
  /** Empty where no rule needs it. */
  latencyCounts: number[];
}

/** A rule that holds. It concerns a deployment, or else the subject. */
export interface FiringAlert {
  tenantId: string;
  deploymentId: string | null;
  /** Unique among the subjects of its kind. */
  subjectId: string | null;
  /** Name for users. */
  subject: string | null;
  kind: AlertKind;
  message: string;
}

type Change = Pick<ChangedRule, "kind" | "enabled" | "threshold">;

/** Returns the rules of one workspace, in the order of the kinds. */
export function rulesOf(changed: readonly Change[]): AlertRule[] {
  return alertKinds.map((kind) => {
    const own = changed.find((rule) => rule.kind === kind);
    const base = defaultRules[kind];
    return {
      ...{ kind, ...base, default_threshold: base.threshold, set_by: own === undefined ? "default" : "workspace" },
      ...(own !== undefined && { enabled: own.enabled, threshold: own.threshold ?? base.threshold }),
    };
  });
}

/** Returns the rules as they apply to one deployment. @param ofWorkspace as `rulesOf` returns them. */
export function rulesOfDeployment(
  ofWorkspace: readonly AlertRule[],
  own: readonly Pick<DeploymentRule, "kind" | "enabled" | "threshold">[],
): AlertRule[] {
  return ofWorkspace.filter(isOfDeployments).map((rule) => {
    const { enabled = null, threshold = null } = own.find(({ kind }) => kind === rule.kind) ?? {};
    if (enabled === null && threshold === null) return rule;
    const changed = { enabled: enabled ?? rule.enabled, threshold: threshold ?? rule.threshold };
    return { ...rule, ...changed, set_by: "deployment" };
  });
}

const isOfDeployments = (rule: AlertRule): rule is AlertRule & { kind: DeploymentAlertKind } =>
  isDeploymentAlertKind(rule.kind);

/** Returns a function from a workspace to its rules, which computes them once. */
export function rulesByTenant(changed: readonly ChangedRule[]): (tenantId: string) => AlertRule[] {
  const byTenant = Map.groupBy(changed, ({ tenantId }) => tenantId);
  const rules = new Map<string, AlertRule[]>();
  return (tenantId) => {
    const found = rules.get(tenantId) ?? rulesOf(byTenant.get(tenantId) ?? []);
    rules.set(tenantId, found);
    return found;
  };
}

/** Returns the rules that hold, for each deployment. */
export function firingAlerts(facts: readonly AlertFacts[], { workspaces, deployments }: RuleChanges): FiringAlert[] {
  const rules = rulesByTenant(workspaces);
  const byDeployment = Map.groupBy(deployments, ({ deploymentId }) => deploymentId);
  return facts.flatMap((one) => {
    const { tenantId, deploymentId } = one;
    const own = rulesOfDeployment(rules(tenantId), byDeployment.get(deploymentId) ?? []);
    const firing = own.filter(isOfDeployments).flatMap(({ kind, enabled, threshold }) => {
      const message = enabled ? conditions[kind](one, threshold) : null;
      return message === null ? [] : [{ tenantId, deploymentId, subjectId: null, subject: null, kind, message }];
    });
    // The alert of a crash loop covers its restarts. Where that rule is off, the restarts are the only alert.
    const isLooping = firing.some(({ kind }) => kind === "crash_looping");
    return firing.filter(({ kind }) => !(isLooping && kind === "restarts"));
  });
}

/** Returns why a rule holds, for the user, or null if it does not. */
type Condition = (facts: AlertFacts, threshold: number) => string | null;

const whenHealthIs =
  (word: HealthWord, text: string): Condition =>
  ({ deploymentName, health, healthMinutes, healthMessage }, threshold) =>
    health === word && healthMinutes >= threshold
      ? `${text} ${withDeploymentName(healthMessage, deploymentName) ?? ""}`.trim()
      : null;

const conditions: Record<DeploymentAlertKind, Condition> = {
  crash_looping: whenHealthIs("crash_looping", "Crash-looping."),
  failed: whenHealthIs("failed", "Failed."),
  degraded: whenHealthIs("degraded", "Degraded."),
  error_share: ({ requests, errors }, threshold) => {
    const percent = (errors / requests) * 100;
    const isHigh = requests >= requestsMin && percent >= threshold && errors > 0;
    return isHigh ? `${errors} of ${requests} requests failed in ${alertWindowMinutes} minutes.` : null;
  },
  latency_p95: ({ requests, latencyCounts }, threshold) => {
    // The value of the charts.
    const p95 = requests < requestsMin ? null : quantileMs(latencyCounts, 0.95);
    if (p95 === null || p95 < threshold) return null;
    const orMore = p95 === latencyBoundsMs.at(-1) ? " or more" : "";
    return `The 95th percentile of the latency is ${Math.round(p95)} ms${orMore}.`;
  },
  restarts: ({ restarts }, threshold) =>
    restarts > 0 && restarts >= threshold ? `${restarts} restarts in ${alertWindowMinutes} minutes.` : null,
  queued_runs: ({ queuedRuns }, threshold) =>
    queuedRuns > 0 && queuedRuns >= threshold
      ? `At least ${queuedRuns} runs waited in the queue for ${alertWindowMinutes} minutes. Raise max_scale or N_JOBS_PER_WORKER.`
      : null,
};
