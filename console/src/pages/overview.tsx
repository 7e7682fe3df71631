import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowRight, GitCommitHorizontal, MessagesSquare } from "lucide-react";
import type { ReactNode } from "react";
import type { Event } from "../../../src/contract/logs/event.ts";
import type { MetricPoint } from "../../../src/contract/logs/metrics.ts";
import type { Revision, RevisionStatus } from "../../../src/contract/revisions/revision.ts";
import { engines } from "../../../src/domain/engines.ts";
import { words } from "../../../src/domain/event-text.ts";
import { countMs, useInbox } from "../agent/approvals.ts";
import { questionOf, titleOf as threadTitle } from "../agent/types.ts";
import { ThreadLight } from "../parts/agent/thread-status.tsx";
import { Avatar } from "../parts/avatar.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
import { makerText, numberText, RevisionStatusMark, reasonText, titleOf } from "../parts/revision-words.tsx";
import { SourceIcon } from "../parts/source-icon.tsx";
import { Spark } from "../parts/spark.tsx";
import { isInProgress, Light, statusText } from "../parts/status.tsx";
import { StepBar } from "../parts/step-bar.tsx";
import { durationText, shortId } from "../parts/text.ts";
import { Ago } from "../parts/time.tsx";
import { type Deployment, sourceText, typeText } from "../parts/words.ts";
import { useSession } from "../session.tsx";

const [deploysShown, eventsShown, waitingShown] = [5, 8, 3];

/** What serves, how it is doing, the last deploys and the last events. */
export function OverviewPart({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const { id } = deployment;
  const revisions = useQuery({
    queryKey: ["deployment", id, "revisions", 20],
    queryFn: ({ signal }) => client.listRevisions({ deployment_id: id, limit: 20 }, { signal }),
  });
  const events = useQuery({
    queryKey: ["deployment", id, "timeline"],
    queryFn: ({ signal }) => client.listEvents({ deployment_ids: [id], order: "desc", limit: 100 }, { signal }),
  });
  const activeId = deployment.active_revision_id;
  const isOlder = activeId !== null && revisions.data?.resources.every((one) => one.id !== activeId) === true;
  const older = useQuery({
    queryKey: ["deployment", id, "revision", activeId],
    queryFn: ({ signal }) => client.getRevision({ deployment_id: id, revision_id: activeId ?? "" }, { signal }),
    enabled: isOlder,
  });
  if (revisions.isPending || (isOlder && older.isPending)) return <Loading what="the overview" />;
  if (revisions.isError) return <Failure error={revisions.error} retry={() => void revisions.refetch()} />;
  const rows = revisions.data.resources;
  const found = events.data?.events ?? [];
  const active = rows.find((one) => one.id === activeId) ?? older.data;
  return (
    <div className="over">
      <div className="stack">
        <MainRevision
          deployment={deployment}
          revision={active ?? rows[0]}
          isActive={active !== undefined}
          events={found}
        />
        <LastDay deployment={deployment} />
        <section className="card deploys" aria-label="Deploys">
          <CardHead title="Deploys">
            <PartLink deployment={deployment} part="revisions" text="All revisions" />
          </CardHead>
          <ul className="plain-list">
            {rows.slice(0, deploysShown).map((revision) => (
              <DeployRow key={revision.id} deployment={deployment} revision={revision} />
            ))}
          </ul>
        </section>
      </div>
      <div className="stack">
        <Waiting deployment={deployment} />
        {active !== undefined && active.engine !== null && active.engine !== "own" && (
          <PlaygroundLink deployment={deployment} />
        )}
        <About deployment={deployment} engine={(active ?? rows[0])?.engine ?? null} />
        <Events events={found.filter(isOutcome).filter(isNews).slice(0, eventsShown)} revisions={rows} />
      </div>
    </div>
  );
}

function CardHead({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="card-head">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

function PartLink({ deployment, part, text }: { deployment: Deployment; part: string; text: string }) {
  return (
    <Link
      to="/o/$tenantId/host/deployments/$id/$part"
      params={{ tenantId: deployment.tenant_id, id: deployment.id, part }}
      className="button quiet small"
    >
      {text}
    </Link>
  );
}

interface MainProps {
  deployment: Deployment;
  revision: Revision | undefined;
  isActive: boolean;
  events: Event[];
}

/** The revision that serves, or the latest one while none does. */
function MainRevision({ deployment, revision, isActive, events }: MainProps) {
  if (revision === undefined) {
    const action = deployment.source === "internal_docker" ? "Push an image" : "Upload a source";
    return (
      <section className="card blank">
        <h2>There is no revision yet</h2>
        <p>{action} to create the first one.</p>
      </section>
    );
  }
  const moves = events
    .filter(({ type, revision_id: own }) => type === "revision.status" && own === revision.id)
    .toReversed();
  return (
    <section className="card" aria-label={isActive ? "Active revision" : "Latest revision"}>
      <CardHead title={isActive ? "Active revision" : "Latest revision"}>
        <PartLink deployment={deployment} part="revisions" text="Details" />
      </CardHead>
      <div className="revision-what">
        <span className="revision-number">{numberText(revision)}</span>
        <div>
          <p className="revision-title">{titleOf(revision)}</p>
          <RevisionMeta revision={revision} />
        </div>
      </div>
      <StepBar revision={revision} moves={moves} />
    </section>
  );
}

/** Who made a revision, why, from which commit, when, and how long its deploy took. */
export function RevisionMeta({ revision, tookMs }: { revision: Revision; tookMs?: number | undefined }) {
  const { repo_commit_sha: sha } = revision.source_revision_config;
  const maker = makerText(revision);
  return (
    <p className="meta">
      {maker !== null && (
        <span className="by">
          <Avatar name={maker} isPerson={revision.made_by?.kind === "member"} /> {maker}
        </span>
      )}
      <span>{reasonText(revision)}</span>
      {sha !== null && (
        <span className="mono">
          <GitCommitHorizontal size={13} className="in-text" /> {shortId(sha)}
        </span>
      )}
      <Ago at={revision.created_at} />
      {tookMs !== undefined && <span>took {durationText(tookMs)}</span>}
    </p>
  );
}

function DeployRow({ deployment, revision }: { deployment: Deployment; revision: Revision }) {
  const maker = makerText(revision);
  return (
    <li>
      <span className="revision-number small-number">{numberText(revision)}</span>
      <Link
        to="/o/$tenantId/host/deployments/$id/$part"
        params={{ tenantId: deployment.tenant_id, id: deployment.id, part: "revisions" }}
        search={{ revision: revision.id }}
        className="clip"
        title={titleOf(revision)}
      >
        {titleOf(revision)}
      </Link>
      <RevisionStatusMark revision={revision} isActive={revision.id === deployment.active_revision_id} />
      <span className="softer clip by">
        {maker !== null && <Avatar name={maker} isPerson={revision.made_by?.kind === "member"} />} {maker}
      </span>
      <span className="softer">
        <Ago at={revision.created_at} />
      </span>
    </li>
  );
}

const dayMs = 86_400_000;
const renewMs = 60_000;
const stepS = 600;

/** Numbers of the last 24 hours. A number that was not measured is a dash. */
function LastDay({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const metrics = useQuery({
    queryKey: ["metrics", deployment.id, "day"],
    queryFn: ({ signal }) =>
      client.readMetrics(
        { deployment_id: deployment.id, step_s: stepS, start_time: new Date(Date.now() - dayMs).toISOString() },
        { signal },
      ),
    refetchInterval: renewMs,
  });
  const read = metrics.data?.points ?? [];
  // The line of a young deployment begins with its first measurement.
  const points = read.slice(
    Math.max(
      0,
      read.findIndex(({ replicas }) => replicas !== null),
    ),
  );
  const sum = (read: (point: MetricPoint) => number) => points.reduce((total, point) => total + read(point), 0);
  const [requests, errors] = [sum((point) => point.requests), sum((point) => point.errors)];
  const latest = (read: (point: MetricPoint) => number | null) =>
    points.slice(-2).findLast((point) => read(point) !== null);
  const p95 = latest((point) => point.p95_ms)?.p95_ms ?? null;
  const memory = latest((point) => point.memory_mib)?.memory_mib ?? null;
  const cpu = latest((point) => point.cpu_cores)?.cpu_cores ?? null;
  const isMeasured = points.some(({ replicas }) => replicas !== null) || requests > 0;
  const cells: { name: string; text: string; note: string; values: (number | null)[]; isBad?: boolean }[] = [
    {
      ...{ name: "Requests", text: isMeasured ? requests.toLocaleString("en") : "–", note: "in 24 hours" },
      values: points.map((point) => (point.replicas === null ? null : point.requests)),
    },
    {
      ...{
        name: "Errors",
        text: requests === 0 ? "–" : `${shareText(errors / requests)} %`,
        isBad: errors > requests / 50,
      },
      ...{
        note: `${errors.toLocaleString("en")} of them`,
        values: points.map((point) => (point.replicas === null ? null : point.errors)),
      },
    },
    {
      ...{ name: "Latency, p95", text: p95 === null ? "–" : latencyText(p95), note: "last 10 min" },
      values: points.map((point) => point.p95_ms),
    },
    {
      ...{ name: "Memory", text: memory === null ? "–" : `${Math.round(memory)} MiB` },
      ...{
        note: cpu === null ? "all replicas" : `${cpu.toFixed(2)} CPU cores`,
        values: points.map((point) => point.memory_mib),
      },
    },
  ];
  return (
    <section className="card" aria-label="Last 24 hours">
      <CardHead title="Last 24 hours">
        <PartLink deployment={deployment} part="charts" text="Metrics" />
      </CardHead>
      {isMeasured && (
        <dl className="vitals">
          {cells.map(({ name, text, note, values, isBad = false }) => (
            <div key={name} className={isBad ? "is-bad" : ""}>
              <dt>{name}</dt>
              <dd className="big">{text}</dd>
              <dd>
                <Spark values={values} />
              </dd>
              <dd className="softer">{note}</dd>
            </div>
          ))}
        </dl>
      )}
      {!isMeasured && metrics.isSuccess && (
        <p className="softer">The first measurements appear a minute after a revision begins to serve.</p>
      )}
    </section>
  );
}

const shareText = (share: number) => (share === 0 ? "0" : (100 * share).toPrecision(2));
const latencyText = (ms: number) => (ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`);

/** What the agent asks people. Empty while it asks nothing. */
function Waiting({ deployment }: { deployment: Deployment }) {
  const all = useInbox(countMs).data?.requests ?? [];
  const own = all.filter((request) => request.deployment.id === deployment.id);
  if (own.length === 0) return null;
  return (
    <section className="card" aria-label="Waiting for you">
      <CardHead title="Waiting for you">
        <span className="lamp-count">{own.length}</span>
      </CardHead>
      <ul className="plain-list events">
        {own.slice(0, waitingShown).map(({ key, thread, interrupt, since }) => (
          <li key={key}>
            <ThreadLight status="interrupted" />
            <Link
              to="/o/$tenantId/host/deployments/$id/$part"
              params={{ tenantId: deployment.tenant_id, id: deployment.id, part: "threads" }}
              search={{ thread: thread.thread_id }}
            >
              {interrupt === null ? threadTitle(thread) : questionOf(interrupt.value)}
            </Link>
            <span className="softer">
              <Ago at={since} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function PlaygroundLink({ deployment }: { deployment: Deployment }) {
  return (
    <Link
      to="/o/$tenantId/host/deployments/$id/$part"
      params={{ tenantId: deployment.tenant_id, id: deployment.id, part: "playground" }}
      className="card card-link"
    >
      <MessagesSquare size={16} className="card-link-icon" />
      <span>
        <b>Open the playground</b>
        <small>Talk to the agent and watch its graph</small>
      </span>
      <ArrowRight size={14} className="card-link-icon" />
    </Link>
  );
}

function About({ deployment, engine }: { deployment: Deployment; engine: Revision["engine"] }) {
  const { source_config: config, source_revision_config: revision, image_version: version } = deployment;
  const type = deployment.is_preview ? "Preview" : config.deployment_type;
  return (
    <section className="card" aria-label="About">
      <CardHead title="About">
        <PartLink deployment={deployment} part="settings" text="Settings" />
      </CardHead>
      <dl className="facts">
        <dt>Source</dt>
        <dd>
          <SourceIcon of={deployment.source} size={13} /> {sourceText(deployment)}
        </dd>
        {deployment.source === "github" && (
          <>
            <dt>On push</dt>
            <dd>{config.build_on_push ? "Deploys" : "Does nothing"}</dd>
          </>
        )}
        {revision.langgraph_config_path !== null && (
          <>
            <dt>Config</dt>
            <dd className="mono">{revision.langgraph_config_path}</dd>
          </>
        )}
        {type !== null && (
          <>
            <dt>Type</dt>
            <dd>{typeText(type)}</dd>
          </>
        )}
        {version !== null && (
          <>
            <dt>Agent server</dt>
            <dd>Version {version}</dd>
          </>
        )}
        {engine !== null && (
          <>
            <dt>Threads and runs</dt>
            <dd>{engine === "own" ? "The project's own server" : engines[engine].title}</dd>
          </>
        )}
        <dt>Variables</dt>
        <dd>{deployment.secrets.length + (deployment.secret_references?.length ?? 0)}</dd>
        <dt>ID</dt>
        <dd className="mono">{deployment.id}</dd>
      </dl>
    </section>
  );
}

/** The last events of the deployment, newest first. */
function Events({ events, revisions }: { events: Event[]; revisions: Revision[] }) {
  if (events.length === 0) return null;
  return (
    <section className="card" aria-label="Events">
      <CardHead title="Events" />
      <ul className="plain-list events">
        {events.map((event) => (
          <li key={event.id}>
            <Light of={lightOf(event)} />
            <span>{eventText(event, revisions)}</span>
            <span className="softer">
              <Ago at={event.created_at} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Leaves out that replicas are ready where the next event says that the revision is live. */
const isNews = (event: Event, at: number, all: Event[]) =>
  event.type !== "deployment.health" || event.data["to"] !== "live" || all[at + 1]?.data["to"] !== "DEPLOYED";

/** Leaves out what the step bar shows, and what another event says. */
function isOutcome({ type, data }: Event): boolean {
  const to = String(data["to"]);
  if (type === "deployment.status") return to !== "READY";
  if (type === "deployment.health") return to !== "deploying" && to !== "deleting";
  return type !== "revision.status" || !isInProgress(to as RevisionStatus);
}

function lightOf({ type, data }: Event): string {
  if (type === "alert.firing") return "failed";
  if (type === "alert.resolved") return "live";
  if (type === "replica.exited") return "degraded";
  return String(data["to"] ?? "");
}

const healthTexts: Record<string, string> = {
  live: "All replicas are ready",
  degraded: "Became degraded",
  crash_looping: "Began to crash-loop",
  failed: "Failed",
  sleeping: "Fell asleep",
  unknown: "Its state is unknown",
};

function eventText({ type, data, revision_id: revisionId }: Event, revisions: Revision[]): string {
  const found = revisions.find(({ id }) => id === revisionId);
  const named = revisionId === null ? "" : `Revision ${found === undefined ? shortId(revisionId) : numberText(found)}`;
  if (type === "revision.status" && data["to"] === "DEPLOYED") return `${named} is live`;
  const to = typeof data["to"] === "string" ? statusText(data["to"]) : null;
  if (type === "revision.created") return `${named} was created`;
  if (type === "alert.firing") return `Alert: ${words(String(data["rule"] ?? ""))}`;
  if (type === "alert.resolved") return `Alert resolved: ${words(String(data["rule"] ?? ""))}`;
  if (type === "replica.exited") {
    const reason = words(String(data["reason"]));
    return reason === "exited" ? "A replica exited" : `A replica ended: ${reason}`;
  }
  if (to === null) return statusText(type.replace(".", "_"));
  if (type === "deployment.health") return healthTexts[String(data["to"])] ?? to;
  return type === "revision.status" ? `${named}: ${to}` : `Status: ${to}`;
}
