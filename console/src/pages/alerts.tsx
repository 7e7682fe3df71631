import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Alert, AlertRule } from "../../../src/contract/alerts/alert.ts";
import { causeOf, Said } from "../parts/cause.tsx";
import { CopyAs } from "../parts/copy-as.tsx";
import { Tabs, TextField } from "../parts/fields.tsx";
import { Empty, Failure, Loading, Notice } from "../parts/notices.tsx";
import { PageTitle } from "../parts/page-head.tsx";
import { ActionButton, FormDialog } from "../parts/resource-page.tsx";
import { Status } from "../parts/status.tsx";
import { Ago } from "../parts/time.tsx";
import { useSession } from "../session.tsx";

const renewMs = 15_000;
const alertsMax = 100;

/** The kinds of the contract, repeated because its schemas would add 40 kB. The compiler finds a missing one. */
const names: Record<AlertRule["kind"], string> = {
  crash_looping: "Crash-looping",
  failed: "Failed",
  degraded: "Degraded",
  error_share: "Error share",
  latency_p95: "Latency, p95",
  restarts: "Restarts",
  queued_runs: "Waiting runs",
};

const units: Record<AlertRule["unit"], string> = { minutes: "min", percent: "%", milliseconds: "ms", count: "" };

const amountText = (value: number, unit: AlertRule["unit"]) =>
  value === 0 && unit === "minutes" ? "At once" : `${value.toLocaleString("en")} ${units[unit]}`.trim();

/** The message begins with the name of the rule, which stands above it. */
function messageText({ kind, message }: Alert): string {
  const said = message.replace(new RegExp(`^${names[kind]}[.:] `), "");
  const { title, rest } = causeOf({ message: said, failure: null });
  return rest === "" ? title : `${title}. ${rest}`;
}

/** The rules that watch the workspace's deployments, and the alerts that they raised. */
export function AlertsPage() {
  const { client, workspaceId } = useSession();
  const [state, setState] = useState<Alert["state"]>("firing");
  const input = { state, limit: alertsMax };
  const alerts = useQuery({
    queryKey: ["alerts", workspaceId, state],
    queryFn: ({ signal }) => client.listAlerts(input, { signal }),
    refetchInterval: renewMs,
  });
  const found = alerts.data?.resources ?? [];
  return (
    <>
      <div className="page-head">
        <PageTitle title="Alerts" about="Which rules hold for your deployments, and where their alerts are sent." />
        <CopyAs
          call={{ id: "listAlerts", input, cli: `npx pierhead alerts list${state === "firing" ? "" : " --all"}` }}
        />
      </div>
      <Tabs
        label="Alerts to show"
        value={state}
        onValue={setState}
        options={[
          { value: "firing", text: "Firing" },
          { value: "resolved", text: "Resolved" },
        ]}
      />
      {alerts.isPending && <Loading what="the alerts" />}
      {alerts.isError && <Failure error={alerts.error} retry={() => void alerts.refetch()} />}
      {alerts.isSuccess && found.length === 0 && (
        <Empty title={state === "firing" ? "Nothing fires" : "No alert was resolved in the last 30 days"}>
          <p>
            An alert says that one of the rules below holds for a deployment. It resolves when the rule no longer holds.
          </p>
        </Empty>
      )}
      {found.length > 0 && <AlertTable alerts={found} />}
      {found.length === alertsMax && (
        <p className="soft">
          The newest {alertsMax} alerts. All of them: <code>npx pierhead alerts list</code>
        </p>
      )}
      <Rules />
      <Receivers />
    </>
  );
}

function AlertTable({ alerts }: { alerts: Alert[] }) {
  const { workspaceId, mayChange } = useSession();
  return (
    <table className="list" aria-label="Alerts">
      <thead>
        <tr>
          <th>Deployment</th>
          <th>Alert</th>
          <th>Since</th>
          {mayChange && (
            <th>
              <span className="sr">Notifications</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {alerts.map((alert) => (
          <tr key={alert.id}>
            <td>
              <Link to="/o/$tenantId/host/deployments/$id" params={{ tenantId: workspaceId, id: alert.deployment_id }}>
                {alert.deployment_name}
              </Link>
            </td>
            <td data-label="Alert">
              <Status of={alert.state === "firing" ? "failed" : "replaced"} text={names[alert.kind]} />
              <div className="softer">
                <Said text={messageText(alert)} />
              </div>
            </td>
            <td data-label="Since">
              <Ago at={alert.since} />
              {alert.muted_until !== null && (
                <div className="softer">muted until {new Date(alert.muted_until).toLocaleString()}</div>
              )}
              {alert.resolved_at !== null && (
                <div className="softer">
                  resolved <Ago at={alert.resolved_at} />
                </div>
              )}
            </td>
            {mayChange && (
              <td className="acts">
                <div className="row">
                  <Mute alert={alert} />
                </div>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const muteMs = 2 * 3_600_000;

function Mute({ alert: { deployment_id, deployment_name: name, muted_until: until } }: { alert: Alert }) {
  const { client, workspaceId } = useSession();
  const mute = (to: string | null) => client.muteAlerts({ deployment_id, body: { until: to } });
  const renews = ["alerts", workspaceId];
  if (until === null)
    return (
      <ActionButton
        text="Mute for 2 h"
        label={`Mute ${name} for 2 hours`}
        act={() => mute(new Date(Date.now() + muteMs).toISOString())}
        done={`New alerts of ${name} send nothing for 2 hours.`}
        undo={() => mute(null)}
        renews={renews}
      />
    );
  return (
    <ActionButton
      text="Unmute"
      label={`Unmute ${name}`}
      act={() => mute(null)}
      done={`Alerts of ${name} are sent again.`}
      renews={renews}
    />
  );
}

function Rules() {
  const { client, workspaceId, mayChange } = useSession();
  const queryKey = ["alert-rules", workspaceId];
  const rules = useQuery({ queryKey, queryFn: ({ signal }) => client.listAlertRules({}, { signal }) });
  return (
    <section className="stack" aria-label="Rules">
      <h2>Rules</h2>
      {rules.isPending && <Loading what="the rules" />}
      {rules.isError && <Failure error={rules.error} retry={() => void rules.refetch()} />}
      {rules.data !== undefined && (
        <table className="list" aria-label="Rules">
          <thead>
            <tr>
              <th>Rule</th>
              <th>Fires when</th>
              <th>From</th>
              <th>State</th>
              {mayChange && (
                <th>
                  <span className="sr">Actions</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {rules.data.rules.map((rule) => (
              <tr key={rule.kind}>
                <td>
                  <b>{names[rule.kind]}</b>
                </td>
                <td data-label="Fires when">{rule.summary}</td>
                <td data-label="From">
                  {amountText(rule.threshold, rule.unit)}
                  {rule.threshold !== rule.default_threshold && (
                    <div className="softer">default {amountText(rule.default_threshold, rule.unit)}</div>
                  )}
                </td>
                <td data-label="State">{rule.enabled ? "On" : <span className="softer">Off</span>}</td>
                {mayChange && (
                  <td className="acts">
                    <div className="row">
                      <RuleActions rule={rule} />
                    </div>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function RuleActions({ rule: { kind, enabled, threshold, unit, summary } }: { rule: AlertRule }) {
  const { client, workspaceId } = useSession();
  // Untouched, the field shows the threshold of the server, which others may change.
  const [typed, setTyped] = useState<string>();
  const text = typed ?? String(threshold);
  const renews = ["alert-rules", workspaceId];
  const name = names[kind];
  const turn = (isOn: boolean) => client.changeAlertRule({ body: { kind, enabled: isOn } });
  const body = { kind, threshold: Number(text) };
  return (
    <>
      <ActionButton
        text={enabled ? "Turn off" : "Turn on"}
        label={`${enabled ? "Turn off" : "Turn on"} ${name}`}
        act={() => turn(!enabled)}
        done={`${name} is ${enabled ? "off" : "on"}.`}
        undo={() => turn(enabled)}
        renews={renews}
      />
      <FormDialog
        open="Change …"
        label={`Change ${name}`}
        isQuiet
        title={`Change the rule ${name}`}
        submit="Save"
        isReady={text.trim() !== "" && Number(text) >= 0}
        call={{
          id: "changeAlertRule",
          input: { body },
          cli: `npx pierhead alerts set ${kind} --threshold ${Number(text)}`,
        }}
        send={() => client.changeAlertRule({ body })}
        renews={renews}
        onDone={() => setTyped(undefined)}
      >
        <TextField
          label={`Fires from${units[unit] === "" ? "" : `, ${units[unit]}`}`}
          hint={summary}
          inputMode="numeric"
          value={text}
          onValue={setTyped}
        />
      </FormDialog>
    </>
  );
}

/** Says where alerts are sent: to the webhooks that take their events. */
function Receivers() {
  const { client, workspaceId, mayChange } = useSession();
  const webhooks = useQuery({
    queryKey: ["webhooks", workspaceId, "alerts"],
    queryFn: ({ signal }) => client.listWebhooks({ limit: 100 }, { signal }),
    enabled: mayChange,
  });
  if (webhooks.isError) return <Failure error={webhooks.error} retry={() => void webhooks.refetch()} />;
  if (webhooks.data === undefined) return null;
  const taking = webhooks.data.resources.filter(
    ({ enabled, types }) => enabled && (types === null || types.includes("alert.firing")),
  );
  return (
    <section className="stack" aria-label="Where alerts are sent">
      <h2>Where alerts are sent</h2>
      {taking.length === 0 ? (
        <Notice kind="warn">
          Alerts are sent nowhere. A webhook sends them to your URL, to Slack or by mail.{" "}
          <Link to="/host/$page" params={{ page: "webhooks" }}>
            Create a webhook
          </Link>
        </Notice>
      ) : (
        <table className="list" aria-label="Webhooks that take alerts">
          <tbody>
            {taking.map(({ id, url, deployment_ids: only }) => (
              <tr key={id}>
                <td className="mono">{url}</td>
                <td className="softer short">
                  {only === null ? "All deployments" : `${only.length} of the deployments`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
