import {
  createRootRoute,
  createRoute,
  createRouter,
  Navigate,
  parseSearchWith,
  redirect,
  stringifySearchWith,
} from "@tanstack/react-router";
import type { DeploymentSort } from "../../src/contract/deployments/deployment.ts";
import { DeploymentsPage } from "./pages/deployments.tsx";
import { lazyPart } from "./parts/lazy-part.tsx";
import { NotFound } from "./parts/not-found.tsx";
import { Failure } from "./parts/notices.tsx";
import { Shell } from "./parts/shell.tsx";
import { HealthNames } from "./parts/words.ts";
import { returnToLeft } from "./return-to.ts";
import {
  type ApprovalsSearch,
  auditSearchOf,
  type ChartRange,
  chartRanges,
  type DeploymentSearch,
  type ListSearch,
  logSearchOf,
  type NewSearch,
  type RevisionFilter,
  revisionFilters,
} from "./search.ts";
import { basePath } from "./server.ts";

export const DeploymentPage = lazyPart(() => import("./pages/deployment.tsx").then((file) => file.DeploymentPage));

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <NotFound title="Page not found">The address leads to no page of this console. It may be mistyped.</NotFound>
  ),
  errorComponent: ({ error }) => <Failure error={error} />,
});

/** The contract's values, repeated because its schemas would add 40 kB to the first view. */
const sorts: Record<DeploymentSort, true> = {
  created_at: true,
  updated_at: true,
  name: true,
  status: true,
  health: true,
};

const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);

function listSearch(raw: Record<string, unknown>): ListSearch {
  const [q, type] = [text(raw["q"]), text(raw["type"])];
  const health = (["attention", ...HealthNames] as const).find((word) => word === raw["health"]);
  const [sort, order] = [text(raw["sort"]), raw["order"]];
  const page = Number(raw["page"]);
  return {
    ...(q !== undefined && { q }),
    ...(health !== undefined && { health }),
    ...(type !== undefined && { type }),
    ...(sort !== undefined && Object.hasOwn(sorts, sort) && { sort: sort as DeploymentSort }),
    ...((order === "asc" || order === "desc") && { order }),
    ...(Number.isInteger(page) && page > 1 && { page }),
    ...(raw["layout"] === "cards" && { layout: "cards" as const }),
  };
}

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: () => <Navigate to="/host/deployments" />,
});
const deployments = createRoute({
  getParentRoute: () => root,
  path: "/host/deployments",
  validateSearch: listSearch,
  component: DeploymentsPage,
});
const inWorkspace = createRoute({
  getParentRoute: () => root,
  path: "/o/$tenantId/host/deployments",
  beforeLoad: () => {
    throw redirect({ to: "/host/deployments" });
  },
});
const create = createRoute({
  getParentRoute: () => root,
  path: "/host/new",
  validateSearch: (raw: Record<string, unknown>): NewSearch => ({
    ...(text(raw["made"]) !== undefined && { made: String(raw["made"]) }),
    ...(text(raw["template"]) !== undefined && { template: String(raw["template"]) }),
    ...((raw["from"] === "github" || raw["from"] === "internal_source") && { from: raw["from"] }),
    ...(text(raw["of"]) !== undefined && { of: String(raw["of"]) }),
    ...(text(raw["revision"]) !== undefined && { revision: String(raw["revision"]) }),
  }),
  component: lazyPart(() => import("./pages/new-deployment.tsx").then((file) => file.NewDeploymentPage)),
});
const deploymentSearch = (raw: Record<string, unknown>): DeploymentSearch => ({
  ...(text(raw["revision"]) !== undefined && { revision: String(raw["revision"]) }),
  ...(text(raw["thread"]) !== undefined && { thread: String(raw["thread"]) }),
  ...(text(raw["checkpoint"]) !== undefined && { checkpoint: String(raw["checkpoint"]) }),
  ...((raw["view"] === "runs" || raw["view"] === "state") && { view: raw["view"] }),
  ...logSearchOf(raw),
  ...(Object.hasOwn(chartRanges, String(raw["range"])) && { range: raw["range"] as ChartRange }),
  ...(text(raw["compare"]) !== undefined && { compare: String(raw["compare"]) }),
  ...(/^[A-Za-z_]\w*$/.test(String(raw["variable"] ?? "")) && { variable: String(raw["variable"]) }),
  ...((raw["log"] === "build" || raw["log"] === "deploy") && { log: raw["log"] }),
  ...(Object.hasOwn(revisionFilters, String(raw["only"])) && { only: raw["only"] as RevisionFilter }),
});
const deployment = createRoute({
  getParentRoute: () => root,
  path: "/o/$tenantId/host/deployments/$id",
  validateSearch: deploymentSearch,
  // Links to one revision or its log name them in the address.
  component: function Main() {
    const { revision, log } = deployment.useSearch();
    return <DeploymentPage part={revision === undefined && log === undefined ? "overview" : "revisions"} />;
  },
});
const deploymentPart = createRoute({
  getParentRoute: () => root,
  path: "/o/$tenantId/host/deployments/$id/$part",
  validateSearch: deploymentSearch,
  beforeLoad: ({ params, search }) => {
    // Earlier versions printed and stored this address.
    if (params.part !== "try") return;
    throw redirect({
      to: "/o/$tenantId/host/deployments/$id/$part",
      params: { ...params, part: "playground" },
      search,
    });
  },
  component: function Part() {
    return <DeploymentPage part={deploymentPart.useParams().part} />;
  },
});
const approvals = createRoute({
  getParentRoute: () => root,
  path: "/host/approvals",
  validateSearch: (raw: Record<string, unknown>): ApprovalsSearch =>
    raw["show"] === "answered" ? { show: "answered" } : {},
  component: lazyPart(() => import("./pages/approvals.tsx").then((file) => file.ApprovalsPage)),
});
const logs = createRoute({
  getParentRoute: () => root,
  path: "/host/logs",
  validateSearch: logSearchOf,
  component: lazyPart(() => import("./pages/log-search.tsx").then((file) => file.LogSearchPage)),
});
const deviceLogin = createRoute({
  getParentRoute: () => root,
  path: "/host/device",
  component: lazyPart(() => import("./pages/device-login.tsx").then((file) => file.DeviceLoginPage)),
});
const settings = createRoute({
  getParentRoute: () => root,
  path: "/host/$page",
  validateSearch: auditSearchOf,
  component: lazyPart(() => import("./pages/settings.tsx").then((file) => file.SettingsPage)),
});

returnToLeft();

export const router = createRouter({
  routeTree: root.addChildren([
    home,
    deployments,
    inWorkspace,
    create,
    deployment,
    deploymentPart,
    approvals,
    logs,
    deviceLogin,
    settings,
  ]),
  basepath: basePath,
  // A query such as "timed out" keeps its quotes. The default would read it as JSON.
  parseSearch: parseSearchWith((text) => text),
  stringifySearch: stringifySearchWith(String),
  defaultPreload: "intent",
  scrollRestoration: false,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
