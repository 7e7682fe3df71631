import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import {
  ArrowLeftRight,
  Boxes,
  CornerDownLeft,
  Inbox,
  Keyboard,
  LogOut,
  Play,
  Plus,
  ScrollText,
  Search,
  Settings,
  SunMoon,
} from "lucide-react";
import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { useSession } from "../session.tsx";
import { chooseTheme, currentTheme } from "../theme.ts";
import { pageActs } from "./page-acts.ts";
import { settingsPages } from "./settings-pages.ts";
import { Light, statusText } from "./status.tsx";

interface Choice {
  key: string;
  text: string;
  hint: string;
  icon: ReactNode;
  go: () => void;
}

const shownMax = 12;

/** Deployments that are shown at most. */
const foundMax = 8;

/** A search for pages, actions and deployments. The server finds the deployments. */
export function Palette({ onClose, onKeys }: { onClose: () => void; onKeys: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const input = useRef<HTMLInputElement>(null);
  const choices = useChoices(typed, onKeys).slice(0, shownMax);
  const chosen = Math.min(at, choices.length - 1);
  const take = (choice: Choice | undefined) => {
    if (choice === undefined) return;
    onClose();
    choice.go();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, choices.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
    else if (event.key === "Enter") take(choices[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog palette" aria-label="Search or run" initialFocus={input}>
          <div className="palette-input">
            <Search size={16} />
            <input
              ref={input}
              role="combobox"
              aria-label="Page, action or deployment"
              aria-expanded={choices.length > 0}
              aria-controls={list}
              aria-activedescendant={chosen >= 0 ? `${list}-${chosen}` : undefined}
              autoComplete="off"
              value={typed}
              onChange={(event) => {
                setTyped(event.target.value);
                setAt(0);
              }}
              onKeyDown={onKey}
              placeholder="A deployment, a page or an action"
            />
            <kbd>esc</kbd>
          </div>
          <div id={list} role="listbox" aria-label="Results" className="choices">
            {choices.map((choice, index) => (
              <div
                key={choice.key}
                id={`${list}-${index}`}
                role="option"
                tabIndex={-1}
                aria-selected={index === chosen}
                onClick={() => take(choice)}
                onKeyDown={onKey}
              >
                {choice.icon}
                {choice.text} <span className="softer">{choice.hint}</span>
              </div>
            ))}
          </div>
          {choices.length === 0 && (
            <p className="palette-empty">Nothing has this name. Try the name of a deployment or of a page.</p>
          )}
          <p className="palette-foot">
            <span>
              <kbd>↑</kbd> <kbd>↓</kbd> choose
            </span>
            <span>
              <CornerDownLeft size={12} /> open
            </span>
          </p>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function useChoices(typed: string, onKeys: () => void): Choice[] {
  const { client, workspaceId, mayAdminister, mayChange, session, chooseWorkspace, signOut } = useSession();
  const navigate = useNavigate();
  const wanted = typed.trim().toLowerCase();
  const [name, part] = partOf(wanted);
  const found = useQuery({
    queryKey: ["deployments", workspaceId, "palette", name],
    queryFn: async ({ signal }) => {
      const [named, texted] = await Promise.all([
        client.listDeployments({ name_contains: name, limit: foundMax }, { signal }),
        client.listDeployments({ text_contains: name, limit: foundMax }, { signal }),
      ]);
      const ids = new Set(named.resources.map(({ id }) => id));
      return { named: named.resources, others: texted.resources.filter(({ id }) => !ids.has(id)) };
    },
    enabled: name !== "",
  });
  const open = (id: string, part?: string) => () =>
    void (part === undefined
      ? navigate({ to: "/o/$tenantId/host/deployments/$id", params: { tenantId: workspaceId, id } })
      : navigate({ to: "/o/$tenantId/host/deployments/$id/$part", params: { tenantId: workspaceId, id, part } }));
  const pages: Choice[] = [
    {
      ...{ key: "list", text: "Deployments", hint: "page", icon: <Boxes size={15} /> },
      go: () => void navigate({ to: "/host/deployments" }),
    },
    {
      ...{ key: "approvals", text: "Approvals", hint: "page", icon: <Inbox size={15} /> },
      go: () => void navigate({ to: "/host/approvals" }),
    },
    {
      ...{ key: "logs", text: "Logs", hint: "page", icon: <ScrollText size={15} /> },
      go: () => void navigate({ to: "/host/logs" }),
    },
    ...(mayChange
      ? [
          {
            ...{ key: "new", text: "New deployment", hint: "action", icon: <Plus size={15} /> },
            go: () => void navigate({ to: "/host/new" }),
          },
        ]
      : []),
    ...settingsPages
      .filter(({ admin }) => !admin || mayAdminister)
      .map(({ page, text }) => ({
        key: page,
        text,
        hint: "page",
        icon: <Settings size={15} />,
        go: () => void navigate({ to: "/host/$page", params: { page } }),
      })),
    ...session.workspaces
      .filter(({ id }) => id !== workspaceId)
      .map(({ id, name: other }) => ({
        ...{ key: `workspace-${id}`, text: `Go to workspace ${other}`, hint: "action" },
        icon: <ArrowLeftRight size={15} />,
        go: () => void navigate({ to: "/host/deployments" }).then(() => chooseWorkspace(id)),
      })),
    {
      ...{ key: "theme", text: `Use ${otherTheme()} colours`, hint: "action", icon: <SunMoon size={15} /> },
      go: () => chooseTheme(otherTheme()),
    },
    { key: "keys", text: "Keyboard shortcuts", hint: "action", icon: <Keyboard size={15} />, go: onKeys },
    { key: "out", text: "Sign out", hint: "action", icon: <LogOut size={15} />, go: () => void signOut() },
  ];
  const choiceOf = ({ id, name: own, health: { status } }: Deployment): Choice => ({
    ...{ key: id, text: own, hint: statusText(status), icon: light(status), go: open(id) },
  });
  const partOfOne = ({ id, name: own, health }: Deployment, one: string): Choice => ({
    ...{ key: `${id}-${one}`, text: `${own}: ${one}`, hint: "deployment", icon: light(health.status) },
    go: open(id, parts[one]),
  });
  const deployments = (found.data?.named ?? []).flatMap((one) => [choiceOf(one), partOfOne(one, part ?? "logs")]);
  // Pages come first, because a word such as `settings` is in many commits.
  const others = (found.data?.others ?? []).map((one) => (part === undefined ? choiceOf(one) : partOfOne(one, part)));
  // Words may come in any order: `orders restart` finds Restart of orders.
  const words = wanted.split(/\s+/);
  const fits = ({ text, hint }: Choice) => words.every((word) => `${text} ${hint}`.toLowerCase().includes(word));
  return [...choicesHere().filter(fits), ...deployments, ...pages.filter(fits), ...others];
}

/** What the page that is shown offers. */
const choicesHere = () =>
  pageActs().map(
    ({ text, hint, icon = <Play size={15} />, act }): Choice => ({ key: `here-${text}`, text, hint, icon, go: act }),
  );

const otherTheme = () => (currentTheme() === "dark" ? "light" : "dark");

const light = (of: string) => <Light of={of} />;

/** Addresses of the parts by the words that find them. The first word of a part is shown. */
const parts: Record<string, string> = {
  revisions: "revisions",
  logs: "logs",
  metrics: "charts",
  variables: "environment",
  playground: "playground",
  settings: "settings",
  charts: "charts",
  environment: "environment",
  try: "playground",
};

/** Splits off the part: `orders env` means the environment of the deployments with `orders` in their name. */
function partOf(wanted: string): [name: string, part: string | undefined] {
  const words = wanted.split(/\s+/);
  const last = words.at(-1) ?? "";
  const part = words.length > 1 && last.length > 1 ? Object.keys(parts).find((one) => one.startsWith(last)) : undefined;
  return part === undefined ? [wanted, undefined] : [words.slice(0, -1).join(" "), part];
}
