import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useId, useState } from "react";
import { useSession } from "../session.tsx";
import { Dialog } from "./dialog.tsx";
import { settingsPages } from "./settings-pages.ts";

interface Choice {
  key: string;
  text: string;
  hint: string;
  go: () => void;
}

const shownMax = 12;

/** A search for pages, actions and deployments. The server finds the deployments. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const choices = useChoices(typed).slice(0, shownMax);
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
    <Dialog title="Go to" onClose={onClose}>
      <input
        role="combobox"
        aria-label="Page, action or deployment"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={chosen >= 0 ? `${list}-${chosen}` : undefined}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKey}
        placeholder="Name of a deployment or page"
      />
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
            {choice.text} <span className="soft">{choice.hint}</span>
          </div>
        ))}
      </div>
    </Dialog>
  );
}

function useChoices(typed: string): Choice[] {
  const { client, workspaceId, mayAdminister, mayChange, signOut } = useSession();
  const navigate = useNavigate();
  const wanted = typed.trim().toLowerCase();
  const [name, part] = partOf(wanted);
  const found = useQuery({
    queryKey: ["deployments", workspaceId, "palette", name],
    queryFn: ({ signal }) => client.listDeployments({ name_contains: name, limit: 8 }, { signal }),
    enabled: name !== "",
  });
  const open = (id: string, part?: string) => () =>
    void (part === undefined
      ? navigate({ to: "/o/$tenantId/host/deployments/$id", params: { tenantId: workspaceId, id } })
      : navigate({ to: "/o/$tenantId/host/deployments/$id/$part", params: { tenantId: workspaceId, id, part } }));
  const pages: Choice[] = [
    { key: "list", text: "Deployments", hint: "page", go: () => void navigate({ to: "/host/deployments" }) },
    ...(mayChange
      ? [{ key: "new", text: "New deployment", hint: "action", go: () => void navigate({ to: "/host/new" }) }]
      : []),
    ...settingsPages
      .filter(({ admin }) => !admin || mayAdminister)
      .map(({ page, text }) => ({
        key: page,
        text,
        hint: "page",
        go: () => void navigate({ to: "/host/$page", params: { page } }),
      })),
    { key: "out", text: "Sign out", hint: "action", go: () => void signOut() },
  ];
  const deployments = (found.data?.resources ?? []).flatMap(({ id, name: own }): Choice[] => {
    const shown = part === undefined ? ["logs"] : [part];
    return [
      { key: id, text: own, hint: "deployment", go: open(id) },
      ...shown.map((one) => ({ key: `${id}-${one}`, text: `${own}: ${one}`, hint: "deployment", go: open(id, one) })),
    ];
  });
  return [...deployments, ...pages.filter(({ text }) => text.toLowerCase().includes(wanted))];
}

const parts = ["logs", "charts", "environment", "try", "settings"];

/** Splits off the part: `orders env` means the environment of the deployments with `orders` in their name. */
function partOf(wanted: string): [name: string, part: string | undefined] {
  const words = wanted.split(/\s+/);
  const last = words.at(-1) ?? "";
  const part = words.length > 1 && last.length > 1 ? parts.find((one) => one.startsWith(last)) : undefined;
  return part === undefined ? [wanted, undefined] : [words.slice(0, -1).join(" "), part];
}
