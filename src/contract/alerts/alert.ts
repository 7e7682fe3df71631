import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { literals, nullable, optional, timestamp, uuid } from "../schema.ts";

/** What a rule watches in a deployment. */
export const deploymentAlertKinds = [
  "crash_looping",
  "failed",
  "degraded",
  "error_share",
  "latency_p95",
  "restarts",
  "queued_runs",
] as const;
export const DeploymentAlertKind = literals(deploymentAlertKinds);
export type DeploymentAlertKind = Static<typeof DeploymentAlertKind>;

/** What a rule watches beside deployments: the servers of the installation, their certificates, and API keys. */
export const subjectAlertKinds = ["disk_used", "certificate_expiry", "key_expiry"] as const;
export type SubjectAlertKind = (typeof subjectAlertKinds)[number];

/** What a rule watches. */
export const alertKinds = [...deploymentAlertKinds, ...subjectAlertKinds] as const;
export const AlertKind = literals(alertKinds);
export type AlertKind = Static<typeof AlertKind>;

/** Returns whether a rule watches deployments, so that a deployment may have its own. */
export const isDeploymentAlertKind = (kind: AlertKind): kind is DeploymentAlertKind =>
  (deploymentAlertKinds as readonly AlertKind[]).includes(kind);

export const AlertState = literals(["firing", "resolved"]);
export type AlertState = Static<typeof AlertState>;

export const Alert = Type.Object(
  {
    id: uuid(),
    deployment_id: nullable(uuid(), "null: the alert concerns `subject`."),
    deployment_name: nullable(Type.String({ examples: ["support-bot"] }), "null: the alert concerns `subject`."),
    subject: nullable(
      Type.String({ examples: ["ci"] }),
      "Name of the server, host of the certificate, or name of the API key. null: the alert concerns a deployment.",
    ),
    kind: AlertKind,
    state: AlertState,
    message: Type.String({
      description: "What happened, for the user.",
      examples: ["5 of 40 requests failed in 10 minutes."],
    }),
    since: timestamp("When the rule began to hold."),
    resolved_at: nullable(timestamp(), "null: it still holds."),
    muted_until: nullable(
      timestamp(),
      "Until then new alerts about the same deployment or `subject` send no notification.",
    ),
  },
  { $id: "Alert", description: "A rule that holds for a deployment, a server, a certificate or an API key, or held." },
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
    threshold: Type.Number({
      description: "In `unit`. The rule holds from this value on; a rule about an expiry, for so many days before it.",
      examples: [10],
    }),
    default_threshold: Type.Number({ description: "Threshold of a workspace that did not change it.", examples: [10] }),
    unit: literals(["minutes", "percent", "milliseconds", "count", "days"]),
    set_by: literals(["default", "workspace", "deployment"], {
      description: "Where the values come from: the program, the workspace, or the deployment itself.",
    }),
    summary: Type.String({
      description: "When the rule holds.",
      examples: ["Share of failed requests in ten minutes."],
    }),
  },
  { $id: "AlertRule", description: "A rule of the workspace, or as it applies to one deployment." },
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

export const ChangeDeploymentAlertRule = Type.Object(
  {
    kind: DeploymentAlertKind,
    enabled: Type.Optional(nullable(Type.Boolean(), "null: as the workspace has it. Absent: unchanged.")),
    threshold: Type.Optional(
      nullable(
        Type.Number({ minimum: 0, maximum: 1_000_000, examples: [2_000] }),
        "null: as the workspace has it. Absent: unchanged.",
      ),
    ),
  },
  { $id: "ChangeDeploymentAlertRule" },
);
export type ChangeDeploymentAlertRule = Static<typeof ChangeDeploymentAlertRule>;

export const AlertPath = Type.Object({ alert_id: uuid("Alert of your workspace.") });
export type AlertPath = Static<typeof AlertPath>;

export const MuteAlerts = Type.Object(
  { until: nullable(timestamp(), "null: notify again from now on.") },
  { $id: "MuteAlerts" },
);
export type MuteAlerts = Static<typeof MuteAlerts>;
