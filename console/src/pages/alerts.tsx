import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Alert, AlertRule } from "../../../src/contract/alerts/alert.ts";
import { RuleActions, RuleTable, ruleNames } from "../parts/alert-rules.tsx";
import { causeOf, Said } from "../parts/cause.tsx";
import { CopyAs } from "../parts/copy-as.tsx";
import { Tabs } from "../parts/fields.tsx";
import { Empty, Failure, Loading, Notice } from "../parts/notices.tsx";
import { PageTitle } from "../parts/page-head.tsx";
import { ActionButton } from "../parts/resource-page.tsx";
import { Status } from "../parts/status.tsx";
import { Ago } from "../parts/time.tsx";
import { useSession } from "../session.tsx";

const renewMs = 15_000;
const alertsMax = 100;

/** The message begins with the name of the rule, which stands above it. */
function messageText({ kind, message }: Alert): string {
  const said = message.replace(new RegExp(`^${ruleNames[kind]}[.:] `), "");
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
        <PageTitle
          title="Alerts"
          about="Which rules hold for your deployments, servers and keys, and where their alerts are sent."
        />
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
          <p>An alert says that one of the rules below holds. It resolves when the rule no longer holds.</p>
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
  const { mayChange } = useSession();
  return (
    <table className="list" aria-label="Alerts">
      <thead>
        <tr>
          <th>About</th>
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
              <About alert={alert} />
            </td>
            <td data-label="Alert">
              <Status of={alert.state === "firing" ? "failed" : "replaced"} text={ruleNames[alert.kind]} />
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

/** The deployment, or the key, server or host that the alert concerns. */
function About({ alert: { deployment_id: id, deployment_name: name, subject, kind } }: { alert: Alert }) {
  const { workspaceId } = useSession();
  if (id !== null)
    return (
      <Link to="/o/$tenantId/host/deployments/$id" params={{ tenantId: workspaceId, id }}>
        {name}
      </Link>
    );
  if (kind === "key_expiry")
    return (
      <Link to="/host/$page" params={{ page: "keys" }}>
        {subject}
      </Link>
    );
  return <b>{subject}</b>;
}

const muteMs = 2 * 3_600_000;

function Mute({ alert: { id, deployment_name, subject, muted_until: until } }: { alert: Alert }) {
  const { client, workspaceId } = useSession();
  const name = deployment_name ?? subject;
  const mute = (to: string | null) => client.muteAlert({ alert_id: id, body: { until: to } });
  const renews = ["alerts", workspaceId];
  if (until === null)
    return (
      <ActionButton
        text="Mute for 2 h"
        label={`Mute for 2 h: ${name}`}
        act={() => mute(new Date(Date.now() + muteMs).toISOString())}
        done={`New alerts about ${name} send nothing for 2 hours.`}
        undo={() => mute(null)}
        renews={renews}
      />
    );
  return (
    <ActionButton
      text="Unmute"
      label={`Unmute ${name}`}
      act={() => mute(null)}
      done={`Alerts about ${name} are sent again.`}
      renews={renews}
    />
  );
}

/** The rules of the workspace. */
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
        <RuleTable rules={rules.data.rules} actions={mayChange ? (rule) => <WorkspaceActions rule={rule} /> : null} />
      )}
    </section>
  );
}

function WorkspaceActions({ rule }: { rule: AlertRule }) {
  const { client, workspaceId } = useSession();
  const { kind } = rule;
  return (
    <RuleActions
      rule={rule}
      callOf={(change) => ({
        id: "changeAlertRule",
        input: { body: { kind, ...change } },
        cli: `npx pierhead alerts set ${kind} --threshold ${change.threshold}`,
      })}
      change={(change) => client.changeAlertRule({ body: { kind, ...change } })}
      renews={["alert-rules", workspaceId]}
    />
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
