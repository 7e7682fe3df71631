import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate, useParams, useRouter } from "@tanstack/react-router";
import {
  BookOpen,
  Boxes,
  Inbox,
  Keyboard,
  LogOut,
  Menu,
  Moon,
  ScrollText,
  Search,
  Settings,
  Sun,
  X,
} from "lucide-react";
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { countPace, useInbox } from "../agent/approvals.ts";
import { useIsLive, useWorkspaceEvents } from "../live.ts";
import { useSession } from "../session.tsx";
import { chooseTheme, currentTheme, onThemeChoice } from "../theme.ts";
import { ActionMenu } from "./action-menu.tsx";
import { Avatar } from "./avatar.tsx";
import { useHealthCounts } from "./health-counts.ts";
import { IconButton } from "./icon-button.tsx";
import { Mark } from "./mark.tsx";
import { News } from "./news.tsx";
import { Palette } from "./palette.tsx";
import { settingsPages } from "./settings-pages.ts";
import { ShortcutsDialog, useShortcuts } from "./shortcuts.tsx";
import { SideLists } from "./side-lists.tsx";

/** The frame of every page: workspace, navigation, account, and where the user is. */
export function Shell() {
  const router = useRouter();
  const { workspaceId } = useSession();
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const [isDrawerOpen, setDrawerOpen] = useState(false);
  const openPalette = () => {
    setDrawerOpen(false);
    setPaletteOpen(true);
  };
  const [isKeysOpen, setKeysOpen] = useState(false);
  const openKeys = () => setKeysOpen(true);
  useShortcuts(openKeys);
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
  useEffect(
    () =>
      router.subscribe("onResolved", ({ pathChanged }) => {
        if (!pathChanged) return;
        setDrawerOpen(false);
        focusMain();
      }),
    [router],
  );
  return (
    <div className="shell">
      <button type="button" className="skip" onClick={focusMain}>
        Skip to content
      </button>
      <aside className="side" aria-label="Console">
        <Side onPalette={openPalette} onKeys={openKeys} />
      </aside>
      <div className="body">
        <header className="top">
          <Drawer isOpen={isDrawerOpen} onOpenChange={setDrawerOpen} onPalette={openPalette} onKeys={openKeys} />
          <Crumbs />
          <LiveMark />
          <News key={workspaceId} />
          <IconButton name="Search" icon={<Search size={16} />} className="narrow-frame" onClick={openPalette} />
        </header>
        <main id="main" tabIndex={-1}>
          {/* Rows, filters and typed text of a page belong to one workspace. */}
          <div key={workspaceId} className="page">
            <Outlet />
          </div>
        </main>
      </div>
      {isPaletteOpen && <Palette onClose={() => setPaletteOpen(false)} onKeys={openKeys} />}
      {isKeysOpen && <ShortcutsDialog onClose={() => setKeysOpen(false)} />}
    </div>
  );
}

const focusMain = () => document.getElementById("main")?.focus();

function Side({ onPalette, onKeys }: { onPalette: () => void; onKeys: () => void }) {
  const { pathname } = useLocation();
  const { mayAdminister } = useSession();
  const firstPage = settingsPages.find(({ admin }) => !admin || mayAdminister) ?? settingsPages[0];
  const isSettings = settingsPages.some(({ page }) => pathname.endsWith(`/host/${page}`));
  const isApprovals = pathname.endsWith("/host/approvals");
  const isLogs = pathname.endsWith("/host/logs");
  const isDeployments = !isSettings && !isApprovals && !isLogs && !isUnknown(pathname);
  return (
    <div className="side-in">
      <div className="side-top">
        <Link to="/host/deployments" aria-label="Pierhead">
          <Mark />
        </Link>
        <WorkspaceChoice />
      </div>
      <button type="button" className="side-search" onClick={onPalette}>
        <Search size={14} />
        <span>Search or run</span>
        <kbd>{navigator.platform.startsWith("Mac") ? "⌘K" : "Ctrl K"}</kbd>
      </button>
      <nav aria-label="Pages">
        <Link to="/host/deployments" className="side-link" aria-current={isDeployments ? "page" : undefined}>
          <Boxes size={15} /> Deployments <DeploymentCount />
        </Link>
        <Link to="/host/logs" className="side-link" aria-current={isLogs ? "page" : undefined}>
          <ScrollText size={15} /> Logs
        </Link>
        <Link to="/host/approvals" className="side-link" aria-current={isApprovals ? "page" : undefined}>
          <Inbox size={15} /> Approvals <WaitingCount />
        </Link>
        <Link
          to="/host/$page"
          params={{ page: firstPage.page }}
          className="side-link"
          aria-current={isSettings ? "page" : undefined}
        >
          <Settings size={15} /> Settings
        </Link>
      </nav>
      <SideLists />
      <div className="side-foot">
        <Account onKeys={onKeys} />
        <ThemeButton />
      </div>
    </div>
  );
}

function DeploymentCount() {
  const counts = useHealthCounts();
  if (counts === undefined || counts.total === 0) return null;
  return (
    <span className="side-count" aria-hidden="true">
      {counts.total.toLocaleString("en")}
    </span>
  );
}

/** The inbox calls up to a hundred agents. The page has its own data before. */
const inboxDelayMs = 2_000;

/** How many runs wait for a person. Sleeping deployments are not woken for it. */
function WaitingCount() {
  const [isDue, setDue] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setDue(true), inboxDelayMs);
    return () => clearTimeout(timer);
  }, []);
  const count = useInbox(countPace, isDue).data?.requests.length ?? 0;
  if (count === 0) return null;
  return (
    <span className="lamp-count">
      {count}
      <span className="sr"> waiting</span>
    </span>
  );
}

/** The navigation of small screens. */
function Drawer(props: {
  isOpen: boolean;
  onOpenChange: (isOpen: boolean) => void;
  onPalette: () => void;
  onKeys: () => void;
}) {
  const popup = useRef<HTMLDivElement>(null);
  return (
    <Dialog.Root open={props.isOpen} onOpenChange={props.onOpenChange}>
      <Dialog.Trigger render={<IconButton name="Menu" icon={<Menu size={17} />} className="narrow-frame" />} />
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup
          ref={popup}
          className="drawer"
          aria-label="Menu"
          initialFocus={() => popup.current?.querySelector<HTMLElement>("nav a") ?? true}
        >
          <Dialog.Close render={<IconButton name="Close the menu" icon={<X size={17} />} className="drawer-close" />} />
          <Side onPalette={props.onPalette} onKeys={props.onKeys} />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** Returns whether the address leads to no page. Settings, approvals and logs are recognized before. */
const isUnknown = (pathname: string) => /\/host\/(?!(?:deployments|new)(?:\/|$))/.test(pathname);

function Crumbs() {
  const { pathname } = useLocation();
  const { id } = useParams({ strict: false });
  const settings = settingsPages.find(({ page }) => pathname.endsWith(`/host/${page}`));
  // The deployment's page reads it. The frame only shows what is known.
  const deployment = useQuery<Deployment>({ queryKey: ["deployment", id], enabled: false });
  const here =
    id !== undefined
      ? (deployment.data?.display_name ?? deployment.data?.name ?? (deployment.isError ? "Not found" : ""))
      : pathname.endsWith("/host/new")
        ? "New deployment"
        : settings?.text;
  const page = pathname.endsWith("/host/device")
    ? "Command line"
    : pathname.endsWith("/host/approvals")
      ? "Approvals"
      : pathname.endsWith("/host/logs")
        ? "Logs"
        : isUnknown(pathname)
          ? "Not found"
          : "Deployments";
  return (
    <nav className="crumbs" aria-label="Where you are">
      {settings !== undefined ? (
        <span>Settings</span>
      ) : here === undefined ? (
        <b>{page}</b>
      ) : (
        <Link to="/host/deployments">Deployments</Link>
      )}
      {here !== undefined && here !== "" && (
        <>
          <span aria-hidden="true">/</span>
          <b>{here}</b>
        </>
      )}
    </nav>
  );
}

function WorkspaceChoice() {
  const { session, workspaceId, chooseWorkspace } = useSession();
  const { tenantId } = useParams({ strict: false });
  const navigate = useNavigate();
  const choose = async (id: string) => {
    // The page of a deployment belongs to its own workspace.
    if (tenantId !== undefined) await navigate({ to: "/host/deployments" });
    chooseWorkspace(id);
  };
  if (session.workspaces.length <= 1) return <span className="workspace clip">{session.workspaces[0]?.name}</span>;
  return (
    <select
      aria-label="Workspace"
      className="workspace"
      value={workspaceId}
      onChange={(event) => void choose(event.target.value)}
    >
      {session.workspaces.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  );
}

/** The time without a stream after which the frame reports it. A page that loads has none for a moment. */
const silentMs = 3_000;

function LiveMark() {
  const isLive = useIsLive();
  const [isSilent, setSilent] = useState(false);
  useEffect(() => {
    setSilent(false);
    if (isLive) return;
    const timer = setTimeout(() => setSilent(true), silentMs);
    return () => clearTimeout(timer);
  }, [isLive]);
  if (isLive)
    return (
      <span className="live" title="Changes on the server appear automatically">
        <i aria-hidden="true" />
        Live updates
      </span>
    );
  return (
    <span className="live waiting" title="Not connected to the event stream">
      {isSilent && (
        <>
          <i aria-hidden="true" />
          Connecting …
        </>
      )}
    </span>
  );
}

function Account({ onKeys }: { onKeys: () => void }) {
  const { session, role, scope, signOut } = useSession();
  return (
    <ActionMenu
      align="start"
      trigger={
        <button type="button" className="account">
          <Avatar name={session.name} />
          <span>
            <b>{session.name}</b>
            <small>{session.name === role ? scope : role}</small>
          </span>
        </button>
      }
      heading={`${role} of the ${scope}`}
      actions={[
        { text: "Keyboard shortcuts", icon: <Keyboard size={14} />, act: onKeys },
        { text: "API reference", icon: <BookOpen size={14} />, href: "docs" },
        { text: "Sign out", icon: <LogOut size={14} />, act: () => void signOut() },
      ]}
    />
  );
}

function ThemeButton() {
  const theme = useSyncExternalStore(onThemeChoice, currentTheme);
  const next = theme === "dark" ? "light" : "dark";
  return (
    <IconButton
      name={`Use ${next} colours`}
      icon={theme === "dark" ? <Sun size={15} /> : <Moon size={15} />}
      onClick={() => chooseTheme(next)}
    />
  );
}
