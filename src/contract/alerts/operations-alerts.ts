import { DeploymentPath } from "../deployments/deployment.ts";
import { operation } from "../operation.ts";
import {
  AlertPage,
  AlertPath,
  AlertRule,
  AlertRules,
  ChangeAlertRule,
  ChangeDeploymentAlertRule,
  ListAlertsQuery,
  MuteAlerts,
} from "./alert.ts";

/** Rules about deployments, and the alerts that they raise (docs/guides/alerts.md). */
export const alertOperations = {
  listAlerts: operation("listAlerts", {
    tag: "Alerts",
    role: "reader",
    operationId: "list_alerts_v2_alerts_get",
    summary: "List the alerts of the workspace, newest first",
    query: ListAlertsQuery,
    response: { status: 200, schema: AlertPage },
  }),
  listAlertRules: operation("listAlertRules", {
    tag: "Alerts",
    role: "reader",
    operationId: "list_alert_rules_v2_alerts_rules_get",
    summary: "List the alert rules of the workspace",
    response: { status: 200, schema: AlertRules },
  }),
  changeAlertRule: operation("changeAlertRule", {
    tag: "Alerts",
    role: "deployer",
    operationId: "change_alert_rule_v2_alerts_rules_patch",
    summary: "Turn an alert rule on or off, or change its threshold",
    body: ChangeAlertRule,
    response: { status: 200, schema: AlertRule },
  }),
  listDeploymentAlertRules: operation("listDeploymentAlertRules", {
    tag: "Alerts",
    role: "reader",
    operationId: "list_deployment_alert_rules_v2_deployments__deployment_id__alert_rules_get",
    summary: "List the alert rules as they apply to one deployment",
    params: DeploymentPath,
    response: { status: 200, schema: AlertRules },
    errors: ["deploymentNotFound"],
  }),
  changeDeploymentAlertRule: operation("changeDeploymentAlertRule", {
    tag: "Alerts",
    role: "deployer",
    operationId: "change_deployment_alert_rule_v2_deployments__deployment_id__alert_rules_patch",
    summary: "Turn an alert rule of one deployment on or off, or change its threshold",
    params: DeploymentPath,
    body: ChangeDeploymentAlertRule,
    response: { status: 200, schema: AlertRule },
    errors: ["deploymentNotFound"],
  }),
  muteAlert: operation("muteAlert", {
    tag: "Alerts",
    role: "deployer",
    operationId: "mute_alert_v2_alerts__alert_id__mute_post",
    summary:
      "Mute the deployment, server, host or key of an alert until a time: new alerts about it send no notification",
    params: AlertPath,
    body: MuteAlerts,
    response: { status: 204, schema: null },
    errors: ["alertNotFound"],
  }),
  muteAlerts: operation("muteAlerts", {
    tag: "Alerts",
    role: "deployer",
    operationId: "mute_alerts_v2_deployments__deployment_id__mute_alerts_post",
    summary: "Send no notifications of new alerts of a deployment until a time",
    params: DeploymentPath,
    body: MuteAlerts,
    response: { status: 204, schema: null },
    errors: ["deploymentNotFound"],
  }),
};
