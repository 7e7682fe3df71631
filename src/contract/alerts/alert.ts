import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { literals, nullable, optional, timestamp, uuid } from "../schema.ts";

/** What a rule watches. */
export const alertKinds = [
  "crash_looping",
  "failed",
  "degraded",
  "error_share",
  "latency_p95",
  "restarts",
  "queued_runs",
] as const;
export const AlertKind = literals(alertKinds);
export type AlertKind = Static<typeof AlertKind>;

export const AlertState = literals(["firing", "resolved"]);
export type AlertState = Static<typeof AlertState>;

export const Alert = Type.Object(
  {
    id: uuid(),
    deployment_id: uuid(),
    deployment_name: Type.String({ examples: ["support-bot"] }),
    kind: AlertKind,
    state: AlertState,
    message: Type.String({
      description: "What happened, for the user.",
      examples: ["5 of 40 requests failed in 10 minutes."],
    }),
    since: timestamp("When the rule began to hold."),
    resolved_at: nullable(timestamp(), "null: it still holds."),
    muted_until: nullable(timestamp(), "Until then new alerts of the deployment send no notification."),
  },
  { $id: "Alert", description: "A rule that holds for a deployment, or held." },
);
export type Alert = Static<typeof Alert>;

export const AlertPage = resourcePage(Alert, "AlertPage");
export type AlertPage = Static<typeof AlertPage>;

export const ListAlertsQuery = Type.Object({
  ...offsetQuery,
  state: optional(AlertState, "Absent: both."),
});
export type ListAlertsQuery = Static<typeof ListAlertsQuery>;

export const AlertRule = Type.Object(
  {
    kind: AlertKind,
    enabled: Type.Boolean(),
    threshold: Type.Number({ description: "In `unit`. The rule holds from this value on.", examples: [10] }),
    default_threshold: Type.Number({ description: "Threshold of a workspace that did not change it.", examples: [10] }),
    unit: literals(["minutes", "percent", "milliseconds", "count"]),
    summary: Type.String({
      description: "When the rule holds.",
      examples: ["Share of failed requests in ten minutes."],
    }),
  },
  { $id: "AlertRule", description: "A rule of the workspace, for all of its deployments." },
);
export type AlertRule = Static<typeof AlertRule>;

export const AlertRules = Type.Object({ rules: Type.Array(AlertRule) }, { $id: "AlertRules" });
export type AlertRules = Static<typeof AlertRules>;

export const ChangeAlertRule = Type.Object(
  {
    kind: AlertKind,
    enabled: optional(Type.Boolean(), "Absent: unchanged."),
    threshold: optional(Type.Number({ minimum: 0, maximum: 1_000_000, examples: [2_000] }), "Absent: unchanged."),
  },
  { $id: "ChangeAlertRule" },
);
export type ChangeAlertRule = Static<typeof ChangeAlertRule>;

export const MuteAlerts = Type.Object(
  { until: nullable(timestamp(), "null: notify again from now on.") },
  { $id: "MuteAlerts" },
);
export type MuteAlerts = Static<typeof MuteAlerts>;
