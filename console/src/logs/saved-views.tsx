import { Bookmark } from "lucide-react";
import { useState } from "react";
import { ActionMenu } from "../parts/action-menu.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { useToasts } from "../parts/toasts.tsx";
import type { LogSearchParams } from "../search.ts";
import { useSession } from "../session.tsx";

interface SavedView {
  name: string;
  search: LogSearchParams;
}

interface Props {
  search: LogSearchParams;
  onOpen: (search: LogSearchParams) => void;
  /** Views of one deployment's log. All deployments share them. */
  isOne: boolean;
}

/** A menu of searches that this user saved in this browser. */
export function SavedViews({ search, onOpen, isOne }: Props) {
  const { session, workspaceId } = useSession();
  const { notify } = useToasts();
  const key = `pierhead.${isOne ? "deployment-log-views" : "log-views"}:${workspaceId}:${session.member_id ?? session.api_key_id ?? ""}`;
  const [views, setViews] = useState(() => storedViews(key));
  const [isNaming, setNaming] = useState(false);
  const { line: _line, ...own } = search;
  const store = (changed: SavedView[]) => {
    setViews(changed);
    localStorage.setItem(key, JSON.stringify(changed));
  };
  const current = views.find((view) => JSON.stringify(view.search) === JSON.stringify(own));
  const save = (name: string) => {
    store([...views.filter((view) => view.name !== name), { name, search: own }]);
    setNaming(false);
    notify(`Saved the view ${name} in this browser.`);
  };
  return (
    <>
      <ActionMenu
        trigger={
          <button type="button">
            <Bookmark size={14} /> {current?.name ?? "Views"}
          </button>
        }
        actions={[
          ...views.map((view) => ({
            text: view.name,
            note: view.search.q ?? "every line",
            act: () => onOpen(view.search),
          })),
          { text: "Save this view …", act: () => setNaming(true) },
          ...(current === undefined
            ? []
            : [{ text: `Delete the view ${current.name}`, act: () => store(views.filter((one) => one !== current)) }]),
        ]}
      />
      {isNaming && (
        <Dialog title="Save this view" onClose={() => setNaming(false)}>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              const name = new FormData(event.currentTarget).get("name")?.toString().trim();
              if (name) save(name);
            }}
          >
            <p className="soft">
              The query and the time range are kept in this browser, for you in this workspace
              {isOne && ", and for every deployment"}.
            </p>
            <label className="field">
              <span>Name</span>
              <input name="name" required maxLength={60} autoComplete="off" />
            </label>
            <div className="row end">
              <button type="button" onClick={() => setNaming(false)}>
                Cancel
              </button>
              <button type="submit" className="primary">
                Save the view
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}

function storedViews(key: string): SavedView[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(stored) ? (stored as SavedView[]).filter(({ name }) => typeof name === "string") : [];
  } catch {
    return [];
  }
}
