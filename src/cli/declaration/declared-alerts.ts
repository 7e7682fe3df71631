import { type AlertKind, type AlertRule, alertKinds } from "../../contract/alerts/alert.ts";
import type { Session } from "../session.ts";
import { differing } from "./change.ts";
import { asObject, wrong } from "./read-object.ts";
import type { Step } from "./step.ts";

/** A rule as a file declares it. Absent fields stay as they are. */
export interface DeclaredRule {
  enabled?: boolean;
  threshold?: number;
}

/** Checks the `alerts` of a file. @throws CliFailure that names the field. */
export function checkAlerts(value: unknown): Partial<Record<AlertKind, DeclaredRule>> {
  for (const [kind, rule] of Object.entries(asObject(value, "alerts"))) {
    if (!alertKinds.some((known) => known === kind))
      throw wrong(`alerts.${kind} is not known. Rules: ${alertKinds.join(", ")}.`);
    const { enabled, threshold, ...others } = asObject(rule, `alerts.${kind}`);
    const [other] = Object.keys(others);
    if (other !== undefined) throw wrong(`alerts.${kind}.${other} is not known. Known are: enabled, threshold.`);
    if (enabled !== undefined && typeof enabled !== "boolean")
      throw wrong(`alerts.${kind}.enabled must be true or false.`);
    if (threshold !== undefined && !(typeof threshold === "number" && threshold >= 0))
      throw wrong(`alerts.${kind}.threshold must be a number from 0.`);
  }
  return value as Partial<Record<AlertKind, DeclaredRule>>;
}

/** Returns a step for each rule of the workspace that is not as the file declares it. */
export async function alertSteps(
  session: Session,
  declared: Partial<Record<AlertKind, DeclaredRule>>,
): Promise<Step[]> {
  if (Object.keys(declared).length === 0) return [];
  const rules = await rulesOf(session);
  return rules.flatMap((rule) => {
    const fields = differing(rule, declared[rule.kind] ?? {});
    if (fields.length === 0) return [];
    const body = { kind: rule.kind, ...declared[rule.kind] };
    const step: Step = {
      change: { name: `alerts.${rule.kind}`, action: "change", fields, variables: { set: [], removed: [] } },
      async act(client, signal) {
        await client.changeAlertRule({ body }, { signal });
        return undefined;
      },
    };
    return [step];
  });
}

/** Returns the declared rules and fields with what the server has. */
export async function pulledAlerts(session: Session, declared: Partial<Record<AlertKind, DeclaredRule>>) {
  if (Object.keys(declared).length === 0) return {};
  const fields = (rule: AlertRule) =>
    Object.fromEntries(Object.keys(declared[rule.kind] ?? {}).map((key) => [key, rule[key as keyof DeclaredRule]]));
  const known = (await rulesOf(session)).filter(({ kind }) => declared[kind] !== undefined);
  return { alerts: Object.fromEntries(known.map((rule) => [rule.kind, fields(rule)])) };
}

async function rulesOf(session: Session): Promise<AlertRule[]> {
  const client = await session.client();
  return (await client.listAlertRules({}, { signal: session.signal })).rules;
}
