import { type AlertKind, alertKinds } from "../../contract/alerts/alert.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { everyPage, tableOf } from "../terminal/choose.ts";
import { age, parseDuration } from "../terminal/text.ts";

export async function alertsList(session: Session, _: string[], { all = false }: { all?: boolean }): Promise<void> {
  const client = await session.client();
  const state = all ? {} : { state: "firing" as const };
  const alerts = await everyPage((page) => client.listAlerts({ ...page, ...state }, { signal: session.signal }));
  session.answer({ alerts }, () => {
    const rows = alerts.map(({ deployment_name, kind, state, since, message, muted_until }) => [
      deployment_name,
      kind,
      muted_until === null ? state : `${state}, muted`,
      age(since),
      // The lines of a log below it are in `pierhead why`.
      message.split("\n")[0] ?? "",
    ]);
    return tableOf(session, ["DEPLOYMENT", "RULE", "STATE", "SINCE", "MESSAGE"], rows);
  });
  if (alerts.length === 0)
    session.terminal.say(all ? "No alerts." : "No alert fires now. All alerts: pierhead alerts list --all");
}

export async function alertsRules(session: Session): Promise<void> {
  const client = await session.client();
  const found = await client.listAlertRules({}, { signal: session.signal });
  session.answer(found, () => {
    const rows = found.rules.map(({ kind, enabled, threshold, default_threshold: initial, unit, summary }) => [
      kind,
      enabled ? "on" : "off",
      `${threshold} ${unit}${threshold === initial ? "" : ` (default ${initial})`}`,
      summary,
    ]);
    return tableOf(session, ["RULE", "STATE", "FROM", "WHEN"], rows);
  });
}

export async function alertsSet(
  session: Session,
  [name = ""]: string[],
  { on, off, threshold }: { on?: boolean; off?: boolean; threshold?: string },
): Promise<void> {
  const kind = alertKinds.find((one) => one === name) as AlertKind | undefined;
  if (kind === undefined) throw usageFailure(`There is no rule ${name}. Rules: ${alertKinds.join(", ")}.`);
  if (on && off) throw usageFailure("--on and --off exclude each other.");
  if (!on && !off && threshold === undefined) throw usageFailure("Give --on, --off or --threshold.");
  if (threshold !== undefined && !isAmount(threshold)) throw usageFailure("--threshold takes a number from 0.");
  const client = await session.client();
  const body = {
    kind,
    ...((on || off) && { enabled: on === true }),
    ...(threshold !== undefined && { threshold: Number(threshold) }),
  };
  const rule = await client.changeAlertRule({ body }, { signal: session.signal });
  session.answer(rule, () => undefined);
  session.terminal.say(`Rule ${kind} is ${rule.enabled ? "on" : "off"}, from ${rule.threshold} ${rule.unit}.`);
}

export async function alertsMute(
  session: Session,
  [name = ""]: string[],
  options: { for?: string; end?: boolean },
): Promise<void> {
  const client = await session.client();
  const { id, name: shown } = await findDeployment(session, name);
  const until = options.end ? null : new Date(Date.now() + parseDuration(options.for ?? "1h")).toISOString();
  await client.muteAlerts({ deployment_id: id, body: { until } }, { signal: session.signal });
  session.answer({ deployment_id: id, muted_until: until }, () => undefined);
  session.terminal.say(
    until === null ? `${shown} notifies again.` : `${shown} sends no notifications of new alerts until ${until}.`,
  );
}

/** `Number` alone reads an empty string as 0. */
const isAmount = (text: string) => text.trim() !== "" && Number.isFinite(Number(text)) && Number(text) >= 0;
