import type { QueryKey } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { AlertRule } from "../../../src/contract/alerts/alert.ts";
import type { Repeatable } from "./copy-as.tsx";
import { TextField } from "./fields.tsx";
import { ActionButton, FormDialog } from "./resource-page.tsx";

/** The kinds of the contract, repeated because its schemas would add 40 kB. The compiler finds a missing one. */
export const ruleNames: Record<AlertRule["kind"], string> = {
  crash_looping: "Crash-looping",
  failed: "Failed",
  degraded: "Degraded",
  error_share: "Error share",
  latency_p95: "Latency, p95",
  restarts: "Restarts",
  queued_runs: "Waiting runs",
  disk_used: "Disk",
  certificate_expiry: "Certificate expiry",
  key_expiry: "API key expiry",
};

const units: Record<AlertRule["unit"], string> = {
  minutes: "min",
  percent: "%",
  milliseconds: "ms",
  count: "",
  days: "days",
};

function amountText(value: number, unit: AlertRule["unit"]): string {
  if (value === 0 && unit === "minutes") return "At once";
  const amount = `${value.toLocaleString("en")} ${units[unit]}`.trim();
  return unit === "days" ? `${amount} before` : amount;
}

/** Rules with their thresholds. @param actions null: the user may not change them. */
export function RuleTable({
  rules,
  actions,
}: {
  rules: AlertRule[];
  actions: ((rule: AlertRule) => ReactNode) | null;
}) {
  return (
    <table className="list rules" aria-label="Rules">
      <thead>
        <tr>
          <th>Rule</th>
          <th>Fires when</th>
          <th>Threshold</th>
          <th>State</th>
          {actions !== null && (
            <th>
              <span className="sr">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {rules.map((rule) => (
          <tr key={rule.kind}>
            <td>
              <b>{ruleNames[rule.kind]}</b>
            </td>
            <td data-label="Fires when">{rule.summary}</td>
            <td data-label="Threshold">
              {amountText(rule.threshold, rule.unit)}
              {rule.threshold !== rule.default_threshold && (
                <div className="softer">default {amountText(rule.default_threshold, rule.unit)}</div>
              )}
            </td>
            <td data-label="State">
              {rule.enabled ? "On" : <span className="softer">Off</span>}
              {rule.set_by === "deployment" && <div className="softer">only here</div>}
            </td>
            {actions !== null && (
              <td className="acts">
                <div className="row">{actions(rule)}</div>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export interface RuleChange {
  enabled?: boolean;
  threshold?: number;
}

/** The buttons that turn a rule on or off and change its threshold. */
export function RuleActions(props: {
  rule: AlertRule;
  callOf: (change: RuleChange) => Repeatable;
  change: (change: RuleChange) => Promise<unknown>;
  renews: QueryKey;
}) {
  const { callOf, change, renews } = props;
  const { kind, enabled, threshold, unit, summary } = props.rule;
  // Untouched, the field shows the threshold of the server, which others may change.
  const [typed, setTyped] = useState<string>();
  const text = typed ?? String(threshold);
  const name = ruleNames[kind];
  return (
    <>
      <ActionButton
        text={enabled ? "Turn off" : "Turn on"}
        label={`${enabled ? "Turn off" : "Turn on"} ${name}`}
        act={() => change({ enabled: !enabled })}
        done={`${name} is ${enabled ? "off" : "on"}.`}
        undo={() => change({ enabled })}
        renews={renews}
      />
      <FormDialog
        open="Change …"
        label={`Change ${name}`}
        isQuiet
        title={`Change the rule ${name}`}
        submit="Save"
        isReady={text.trim() !== "" && Number(text) >= 0}
        call={callOf({ threshold: Number(text) })}
        send={() => change({ threshold: Number(text) })}
        renews={renews}
        onDone={() => setTyped(undefined)}
      >
        <TextField
          label={unit === "days" ? "Days before" : `Fires from${units[unit] === "" ? "" : `, ${units[unit]}`}`}
          hint={summary}
          inputMode="numeric"
          value={text}
          onValue={setTyped}
        />
      </FormDialog>
    </>
  );
}
