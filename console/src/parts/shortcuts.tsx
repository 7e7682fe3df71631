import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "../session.tsx";
import { Dialog } from "./dialog.tsx";
import { areKeysOn, switchKeys, useKeys } from "./keys.ts";
import { settingsPages } from "./settings-pages.ts";

/** The parts of a deployment's page in the order of its tabs. The first one is the overview. */
const parts = ["", "revisions", "logs", "charts", "threads", "playground", "environment", "settings"];

const groups: Record<string, [keys: string, text: string][]> = {
  Anywhere: [
    [navigator.platform.startsWith("Mac") ? "⌘ K" : "Ctrl K", "Search or run"],
    ["g d", "Deployments"],
    ["g a", "Approvals"],
    ["g s", "Settings"],
    ["c", "New deployment"],
    ["?", "This list"],
  ],
  "A list": [
    ["/", "Filter"],
    ["j k", "Next, previous"],
    ["x", "Select"],
    ["⏎", "Open"],
  ],
  "A deployment": [
    ["1 … 8", "Its parts, from Overview to Settings"],
    ["d", "Deploy"],
    ["r", "Revisions, to roll back"],
    ["l", "Logs"],
    ["p", "Playground"],
  ],
  "A question of an agent": [
    ["a", "Go to Approve"],
    ["n", "Decline"],
  ],
  "A form": [
    ["⏎", "Send"],
    ["esc", "Close"],
  ],
};

/** Binds the keys of all pages. */
export function useShortcuts(openList: () => void): void {
  const navigate = useNavigate();
  const { id, tenantId } = useParams({ strict: false });
  const { mayChange, mayAdminister } = useSession();
  const firstPage = settingsPages.find(({ admin }) => !admin || mayAdminister) ?? settingsPages[0];
  const open = (part: string) => () => {
    if (id === undefined || tenantId === undefined) return;
    const params = { tenantId, id };
    if (part === "") void navigate({ to: "/o/$tenantId/host/deployments/$id", params });
    else void navigate({ to: "/o/$tenantId/host/deployments/$id/$part", params: { ...params, part } });
  };
  const numbered = Object.fromEntries(parts.map((part, at) => [String(at + 1), open(part)]));
  useKeys({
    "?": openList,
    "g d": () => void navigate({ to: "/host/deployments" }),
    "g a": () => void navigate({ to: "/host/approvals" }),
    "g s": () => void navigate({ to: "/host/$page", params: { page: firstPage.page } }),
    ...(mayChange && { c: () => void navigate({ to: "/host/new" }) }),
    ...(id !== undefined && { ...numbered, r: open("revisions"), l: open("logs"), p: open("playground") }),
  });
}

/** The list of keys, with the switch that turns the single ones off. */
export function ShortcutsDialog({ onClose }: { onClose: () => void }) {
  const [isOn, setOn] = useState(areKeysOn);
  const turn = (to: boolean) => {
    switchKeys(to);
    setOn(to);
  };
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <div className="keys">
        {Object.entries(groups).map(([name, rows]) => (
          <section key={name}>
            <h3>{name}</h3>
            <dl>
              {rows.map(([keys, text]) => (
                <div key={text}>
                  <dt>{text}</dt>
                  <dd>
                    {keys.split(" ").map((key) => (
                      <kbd key={key}>{key}</kbd>
                    ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <label className="row">
        <input type="checkbox" checked={isOn} onChange={(event) => turn(event.target.checked)} /> Single keys act
        outside of fields
      </label>
    </Dialog>
  );
}
