import type { Alert, AlertRule } from "../../contract/alerts/alert.ts";
import { operations } from "../../contract/operations.ts";
import { defaultRules, rulesOf, rulesOfDeployment } from "../../domain/alert-rules.ts";
import { type AlertRow, listAlerts, muteAlert, muteAlerts } from "../../store/alerts/alerts.ts";
import {
  changeAlertRule,
  changeDeploymentAlertRule,
  listAlertRules,
  listDeploymentAlertRules,
} from "../../store/alerts/rules.ts";
import { type Api, route } from "../http/route.ts";

/** Adds the routes of alerts and their rules (docs/guides/alerts.md). */
export function addAlertRoutes(api: Api): void {
  const { db } = api.deps;

  route(api, operations.listAlerts, async ({ principal, query }) => {
    const { limit, offset, state = null } = query;
    const rows = await listAlerts(db, principal.tenantId, { limit, offset, state });
    return { resources: rows.map(alertOf), offset: offset + rows.length };
  });

  route(api, operations.listAlertRules, async ({ principal }) => ({
    rules: rulesOf(await listAlertRules(db, principal.tenantId)),
  }));

  route(api, operations.changeAlertRule, async ({ principal, body }) => {
    const { kind, enabled = null, threshold = null } = body;
    const { enabled: isOnByDefault } = defaultRules[kind];
    await changeAlertRule(db, principal, { kind, enabled, threshold, isOnByDefault });
    const rules = rulesOf(await listAlertRules(db, principal.tenantId));
    return rules.find((rule) => rule.kind === kind) as AlertRule;
  });

  const deploymentRules = async (tenantId: string, deploymentId: string) => {
    const own = await listDeploymentAlertRules(db, tenantId, deploymentId);
    return rulesOfDeployment(rulesOf(await listAlertRules(db, tenantId)), own);
  };

  route(api, operations.listDeploymentAlertRules, async ({ principal, params }) => ({
    rules: await deploymentRules(principal.tenantId, params.deployment_id),
  }));

  route(api, operations.changeDeploymentAlertRule, async ({ principal, params, body }) => {
    await changeDeploymentAlertRule(db, principal, params.deployment_id, body);
    const rules = await deploymentRules(principal.tenantId, params.deployment_id);
    return rules.find(({ kind }) => kind === body.kind) as AlertRule;
  });

  route(api, operations.muteAlert, ({ principal, params, body }) =>
    muteAlert(db, principal, params.alert_id, body.until),
  );

  route(api, operations.muteAlerts, ({ principal, params, body }) =>
    muteAlerts(db, principal, params.deployment_id, body.until),
  );
}

function alertOf({ since, resolved_at, muted_until, ...row }: AlertRow): Alert {
  return {
    ...row,
    since: since.toISOString(),
    resolved_at: resolved_at?.toISOString() ?? null,
    muted_until: muted_until?.toISOString() ?? null,
  };
}
