import { Link, Outlet, useNavigate, useParams, useRouter } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useIsLive, useWorkspaceEvents } from "../live.ts";
import { useSession } from "../session.tsx";
import { Palette } from "./palette.tsx";
import { settingsPages } from "./settings-pages.ts";

/** The frame of every page: workspace, account and navigation. */
export function Shell() {
  const { mayAdminister } = useSession();
  const router = useRouter();
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  useWorkspaceEvents();
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        setPaletteOpen(true);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  // Keyboard and screen reader users continue at the start of the new page.
  useEffect(() => router.subscribe("onResolved", ({ pathChanged }) => pathChanged && focusMain()), [router]);
  return (
    <>
      <button type="button" className="skip" onClick={focusMain}>
        Skip to content
      </button>
      <header className="top">
        <Link to="/host/deployments" className="brand">
          Pierhead
        </Link>
        <WorkspaceChoice />
        <LiveMark />
        <button type="button" className="plain palette-button" onClick={() => setPaletteOpen(true)}>
          Go to … <kbd>Ctrl K</kbd>
        </button>
        <Account />
      </header>
      <nav className="side" aria-label="Pages">
        <Link to="/host/deployments">Deployments</Link>
        {settingsPages.map(
          ({ page, text, admin }) =>
            (!admin || mayAdminister) && (
              <Link key={page} to="/host/$page" params={{ page }}>
                {text}
              </Link>
            ),
        )}
      </nav>
      <main id="main" tabIndex={-1}>
        <Outlet />
      </main>
      {isPaletteOpen && <Palette onClose={() => setPaletteOpen(false)} />}
    </>
  );
}

const focusMain = () => document.getElementById("main")?.focus();

function WorkspaceChoice() {
  const { session, workspaceId, chooseWorkspace } = useSession();
  const { tenantId } = useParams({ strict: false });
  const navigate = useNavigate();
  const choose = async (id: string) => {
    // The page of a deployment belongs to its own workspace.
    if (tenantId !== undefined) await navigate({ to: "/host/deployments" });
    chooseWorkspace(id);
  };
  if (session.workspaces.length <= 1) return <span className="soft">{session.workspaces[0]?.name}</span>;
  return (
    <select aria-label="Workspace" value={workspaceId} onChange={(event) => void choose(event.target.value)}>
      {session.workspaces.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  );
}

function LiveMark() {
  const isLive = useIsLive();
  return (
    <span
      className={`status ${isLive ? "good" : "idle"}`}
      title={isLive ? "Updates arrive automatically" : "Not connected to the event stream"}
    >
      <span className="dot" aria-hidden="true" />
      {isLive ? "live" : "connecting"}
    </span>
  );
}

function Account() {
  const { session, role, scope, signOut } = useSession();
  return (
    <details className="menu">
      <summary>{session.name}</summary>
      <div className="menu-items">
        <span className="soft">
          {role} of the {scope}
        </span>
        <a href="docs">API reference</a>
        <button type="button" onClick={() => void signOut()}>
          Sign out
        </button>
      </div>
    </details>
  );
}
