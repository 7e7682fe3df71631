import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { ArrowUpRight, Copy, Gauge, KeyRound, Trash2, Undo2 } from "lucide-react";
import { type ReactNode, Suspense, useEffect } from "react";
import { isRefusal } from "../../../src/client/client.ts";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { countPace, useInbox } from "../agent/approvals.ts";
import { isKnownForeign } from "../agent/foreign-servers.ts";
import { Address } from "../parts/address.tsx";
import { causeOf } from "../parts/cause.tsx";
import { CopyAs, copyText } from "../parts/copy-as.tsx";
import { useCurrentInView } from "../parts/current-in-view.ts";
import { DeployButton } from "../parts/deploy-button.tsx";
import { HealthBanner, leadsOn } from "../parts/health-banner.tsx";
import { lazyPart } from "../parts/lazy-part.tsx";
import { NotFound } from "../parts/not-found.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
import { usePageActs } from "../parts/page-acts.ts";
import { usePageTitle } from "../parts/page-title.ts";
import { Status, statusText } from "../parts/status.tsx";
import { typeText } from "../parts/words.ts";
import { useRemembered } from "../recent.ts";
import { ownerOf, useSession } from "../session.tsx";
import { OverviewPart } from "./overview.tsx";
import { RevisionsPart } from "./revisions.tsx";

const LogsPart = lazyPart(() => import("./logs.tsx").then((file) => file.LogsPart));
const ChartsPart = lazyPart(() => import("./charts.tsx").then((file) => file.ChartsPart));
const EnvironmentPart = lazyPart(() => import("./environment.tsx").then((file) => file.EnvironmentPart));
const ThreadsPart = lazyPart(() => import("./threads.tsx").then((file) => file.ThreadsPart));
const PlaygroundPart = lazyPart(() => import("./playground.tsx").then((file) => file.PlaygroundPart));
const DeploymentSettingsPart = lazyPart(() =>
  import("./deployment-settings.tsx").then((file) => file.DeploymentSettingsPart),
);

const parts = {
  overview: "Overview",
  revisions: "Revisions",
  logs: "Logs",
  charts: "Metrics",
  threads: "Threads",
  playground: "Playground",
  environment: "Variables",
  settings: "Settings",
} as const;

/** The page of one deployment. Each of its parts has an address. */
export function DeploymentPage({ part }: { part: string }) {
  const { id = "", tenantId = "" } = useParams({ strict: false });
  const { client, session, workspaceId, chooseWorkspace } = useSession();
  // The browser's Back button can lead to pages of the previously selected workspace.
  const isElsewhere = tenantId !== workspaceId && session.workspaces.some((one) => one.id === tenantId);
  useEffect(() => {
    if (isElsewhere) chooseWorkspace(tenantId);
  }, [isElsewhere, chooseWorkspace, tenantId]);
  const found = useQuery({
    queryKey: ["deployment", id],
    queryFn: ({ signal }) => client.getDeployment({ deployment_id: id }, { signal }),
    enabled: !isElsewhere,
  });
  if (found.isPending || isElsewhere) return <Loading what="the deployment" />;
  if (isRefusal(found.error, "deploymentNotFound", "invalidRequest"))
    return (
      <NotFound title="There is no deployment at this address">
        It may have been deleted, or be in another workspace.
      </NotFound>
    );
  if (found.isError && found.data === undefined)
    return <Failure error={found.error} retry={() => void found.refetch()} />;
  return <Found deployment={found.data as Deployment} part={part} />;
}

function Found({ deployment, part }: { deployment: Deployment; part: string }) {
  const title = Object.hasOwn(parts, part) ? parts[part as keyof typeof parts] : parts.overview;
  const { health } = deployment;
  const { session, workspaceId } = useSession();
  const row = useCurrentInView(part);
  const inbox = useInbox(countPace);
  const waiting = inbox.data?.requests.filter((request) => request.deployment.id === deployment.id).length ?? 0;
  const hasNoThreads = inbox.data !== undefined && isKnownForeign(deployment);
  const warning = health.status === "live" ? undefined : statusText(health.status);
  useRemembered(ownerOf(session, workspaceId), deployment.id);
  usePageTitle(warning, title, deployment.display_name ?? deployment.name);
  return (
    <>
      <Head deployment={deployment} part={part} />
      <nav ref={row} className="tabs" aria-label="Parts of the deployment">
        {Object.entries(parts)
          .filter(([name]) => name !== "threads" || name === part || !hasNoThreads)
          .map(([name, text]) => (
            <PartLink key={name} deployment={deployment} name={name} text={text}>
              {name === "threads" && waiting > 0 && (
                <span className="lamp-count" aria-hidden="true">
                  {waiting}
                </span>
              )}
            </PartLink>
          ))}
      </nav>
      {(part === "overview" || (part === "revisions" && !isSaidBelow(deployment))) && (
        <HealthBanner deployment={deployment} isShort={part === "revisions"} />
      )}
      <Suspense fallback={<Loading what="this page" />}>
        {/* Typed text and the conversation belong to one deployment. */}
        <Part key={deployment.id} part={part} deployment={deployment} />
      </Suspense>
    </>
  );
}

/** On the page of revisions the newest one shows why it failed, with its log. */
const isSaidBelow = ({ health }: Deployment) => health.status === "failed" && causeOf(health).variable === null;

function Part({ part, deployment }: { part: string; deployment: Deployment }) {
  if (part === "logs") return <LogsPart deployment={deployment} />;
  if (part === "charts") return <ChartsPart deployment={deployment} />;
  if (part === "environment") return <EnvironmentPart deployment={deployment} />;
  if (part === "threads") return <ThreadsPart deployment={deployment} />;
  if (part === "playground") return <PlaygroundPart deployment={deployment} />;
  if (part === "settings") return <DeploymentSettingsPart deployment={deployment} />;
  if (part === "revisions") return <RevisionsPart deployment={deployment} />;
  return <OverviewPart deployment={deployment} />;
}

/** The address of the first part is the prefix of the others. */
const exact = { exact: true, includeSearch: false };

function PartLink(props: { deployment: Deployment; name: string; text: string; children: ReactNode }) {
  const { deployment, name, text, children } = props;
  const params = { tenantId: deployment.tenant_id, id: deployment.id };
  if (name === "overview")
    return (
      <Link to="/o/$tenantId/host/deployments/$id" params={params} activeOptions={exact}>
        {text}
      </Link>
    );
  return (
    <Link to="/o/$tenantId/host/deployments/$id/$part" params={{ ...params, part: name }} activeOptions={exact}>
      {text}
      {children}
    </Link>
  );
}

function Head({ deployment, part }: { deployment: Deployment; part: string }) {
  const { name, display_name, url } = deployment;
  useHeadActs(deployment);
  const type = deployment.is_preview ? "Preview" : deployment.source_config.deployment_type;
  return (
    <header className={part === "overview" ? "head" : "head head-short"}>
      <div className="row">
        <h1>{display_name ?? name}</h1>
        <Status of={deployment.health.status} isPill />
        {type !== null && <span className="tag">{typeText(type)}</span>}
      </div>
      <div className="head-acts row">
        <CopyAs
          call={{
            id: "getDeployment",
            input: { deployment_id: deployment.id },
            cli: `npx pierhead status ${deployment.id}`,
          }}
        />
        {/* Nothing answers at the address before a revision has served. */}
        {url !== null && deployment.active_revision_id !== null && (
          <a href={url} className="button open-agent" target="_blank" rel="noreferrer">
            <ArrowUpRight size={14} /> Open
          </a>
        )}
        <DeployButton deployment={deployment} isPrimary={part === "overview" && !leadsOn(deployment)} />
      </div>
      <p className="address">{url !== null && <Address url={url} />}</p>
    </header>
  );
}

/** Offers in the palette what the page of a deployment leads to. */
function useHeadActs({ id, tenant_id: tenantId, name, display_name, url }: Deployment) {
  const navigate = useNavigate();
  const { mayChange } = useSession();
  const hint = display_name ?? name;
  const open = (part: string) => () =>
    void navigate({ to: "/o/$tenantId/host/deployments/$id/$part", params: { tenantId, id, part } });
  usePageActs([
    ...(mayChange
      ? [
          { text: "Roll back …", hint, icon: <Undo2 size={15} />, act: open("revisions") },
          { text: "Set a variable …", hint, icon: <KeyRound size={15} />, act: open("environment") },
          { text: "Change size …", hint, icon: <Gauge size={15} />, act: open("settings") },
          { text: "Delete …", hint, icon: <Trash2 size={15} />, act: open("settings") },
        ]
      : []),
    ...(url === null
      ? []
      : [
          { text: "Copy address", hint, icon: <Copy size={15} />, act: () => void copyText(url) },
          {
            text: "Open address",
            hint,
            icon: <ArrowUpRight size={15} />,
            act: () => void window.open(url, "_blank", "noreferrer"),
          },
        ]),
  ]);
}
