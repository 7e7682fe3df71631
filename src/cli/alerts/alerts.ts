import { type AlertKind, type AlertRule, alertKinds, isDeploymentAlertKind } from "../../contract/alerts/alert.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { everyPage, tableOf } from "../terminal/choose.ts";
import { age, headline, parseDuration } from "../terminal/text.ts";

export async function alertsList(session: Session, _: string[], { all = false }: { all?: boolean }): Promise<void> {
  const client = await session.client();
  const state = all ? {} : { state: "firing" as const };
  const alerts = await everyPage((page) => client.listAlerts({ ...page, ...state }, { signal: session.signal }));
  session.answer({ alerts }, () => {
    const rows = alerts.map(({ deployment_name, subject, kind, state, since, message, muted_until }) => [
      deployment_name ?? subject ?? "",
      kind,
      muted_until === null ? state : `${state}, muted`,
      age(since),
      // The lines of a log below it are in `pierhead why`.
      headline(message),
    ]);
    return tableOf(session, ["ABOUT", "RULE", "STATE", "SINCE", "MESSAGE"], rows);
  });
  if (alerts.length === 0)
    session.terminal.say(all ? "No alerts." : "No alert fires now. All alerts: pierhead alerts list --all");
}

export async function alertsRules(session: Session, [name]: string[]): Promise<void> {
  const client = await session.client();
  const { signal } = session;
  const found =
    name === undefined
      ? await client.listAlertRules({}, { signal })
      : await client.listDeploymentAlertRules({ deployment_id: (await findDeployment(session, name)).id }, { signal });
  session.answer(found, () => {
    const rows = found.rules.map(({ kind, enabled, threshold, default_threshold: initial, unit, set_by, summary }) => [
      kind,
      enabled ? "on" : "off",
      `${threshold} ${unit}${threshold === initial ? "" : ` (default ${initial})`}`,
      set_by,
      summary,
    ]);
    return tableOf(session, ["RULE", "STATE", "FROM", "SET BY", "WHEN"], rows);
  });
}

interface SetOptions {
  on?: boolean;
  off?: boolean;
  threshold?: string;
  deployment?: string;
  inherit?: boolean;
}

export async function alertsSet(session: Session, [name = ""]: string[], options: SetOptions): Promise<void> {
  const { on, off, threshold, deployment, inherit } = options;
  const kind = alertKinds.find((one) => one === name) as AlertKind | undefined;
  if (kind === undefined) throw usageFailure(`There is no rule ${name}. Rules: ${alertKinds.join(", ")}.`);
  if (on && off) throw usageFailure("--on and --off exclude each other.");
  if (inherit && (on || off || threshold !== undefined))
    throw usageFailure(
      "--inherit removes what was set for the deployment: give it without --on, --off and --threshold.",
    );
  if (inherit && deployment === undefined) throw usageFailure("--inherit needs --deployment.");
  if (!on && !off && !inherit && threshold === undefined)
    throw usageFailure(`Give --on, --off or --threshold${deployment === undefined ? "" : ", or --inherit"}.`);
  if (threshold !== undefined && !isAmount(threshold)) throw usageFailure("--threshold takes a number from 0.");
  const values = {
    ...((on || off) && { enabled: on === true }),
    ...(threshold !== undefined && { threshold: Number(threshold) }),
  };
  const client = await session.client();
  if (deployment === undefined) {
    answerRule(session, await client.changeAlertRule({ body: { kind, ...values } }, { signal: session.signal }), "");
    return;
  }
  if (!isDeploymentAlertKind(kind))
    throw usageFailure(`The rule ${kind} concerns no deployment. Leave out --deployment.`);
  const { id, name: shown } = await findDeployment(session, deployment);
  const body = { kind, ...(inherit ? { enabled: null, threshold: null } : values) };
  const rule = await client.changeDeploymentAlertRule({ deployment_id: id, body }, { signal: session.signal });
  answerRule(session, rule, ` for ${shown}`);
}

function answerRule(session: Session, rule: AlertRule, where: string): void {
  session.answer(rule, () => undefined);
  const { kind, enabled, threshold, unit } = rule;
  session.terminal.say(`Rule ${kind} is ${enabled ? "on" : "off"}${where}, from ${threshold} ${unit}.`);
}

export async function alertsMute(
  session: Session,
  [name]: string[],
  options: { for?: string; about?: string; end?: boolean },
): Promise<void> {
  const { about } = options;
  if ((name === undefined) === (about === undefined))
    throw usageFailure("Name a deployment, or give --about with the server, host or key that an alert names.");
  const until = options.end ? null : new Date(Date.now() + parseDuration(options.for ?? "1h")).toISOString();
  const shown = name === undefined ? about : await muteDeployment(session, name, until);
  if (about !== undefined) await muteSubject(session, about, until);
  const what = `alerts about ${shown}`;
  session.terminal.say(
    until === null ? `New ${what} send notifications again.` : `New ${what} send no notifications until ${until}.`,
  );
}

/** @returns the name of the deployment. */
async function muteDeployment(session: Session, name: string, until: string | null): Promise<string> {
  const { id, name: shown } = await findDeployment(session, name);
  const client = await session.client();
  await client.muteAlerts({ deployment_id: id, body: { until } }, { signal: session.signal });
  session.answer({ deployment_id: id, subject: null, muted_until: until }, () => undefined);
  return shown;
}

async function muteSubject(session: Session, about: string, until: string | null): Promise<void> {
  const client = await session.client();
  const { signal } = session;
  const alerts = await everyPage((page) => client.listAlerts(page, { signal }));
  const subjects = alerts.flatMap(({ id, subject }) => (subject === null ? [] : [{ id, subject }]));
  const alert = subjects.find(({ subject }) => subject === about);
  if (alert === undefined) {
    const names = [...new Set(subjects.map(({ subject }) => subject))];
    const hints = names.length === 0 ? [] : [`Alerts name: ${names.join(", ")}`];
    throw new CliFailure(`No alert names "${about}".`, { hints });
  }
  await client.muteAlert({ alert_id: alert.id, body: { until } }, { signal });
  session.answer({ deployment_id: null, subject: about, muted_until: until }, () => undefined);
}

/** `Number` alone reads an empty string as 0. */
const isAmount = (text: string) => text.trim() !== "" && Number.isFinite(Number(text)) && Number(text) >= 0;
