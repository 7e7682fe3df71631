import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ChevronRight, FlaskConical } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Event } from "../../../src/contract/logs/event.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { CopyText } from "../parts/address.tsx";
import { RevisionCause } from "../parts/cause.tsx";
import { dayOf, dayText } from "../parts/day-text.ts";
import { BuildLog } from "../parts/log-view.tsx";
import { Failure, Loading, Notice } from "../parts/notices.tsx";
import { ReusedBuild } from "../parts/reused-build.tsx";
import { RevisionActions } from "../parts/revision-actions.tsx";
import { RevisionDiff } from "../parts/revision-diff.tsx";
import { RevisionHeading } from "../parts/revision-heading.tsx";
import { isChangeOnly, numberText, RevisionStatusMark } from "../parts/revision-words.tsx";
import { isFailure, isInProgress } from "../parts/status.tsx";
import { StepBar } from "../parts/step-bar.tsx";
import { shortId } from "../parts/text.ts";
import { Ago } from "../parts/time.tsx";
import { type RevisionFilter, revisionFilters } from "../search.ts";
import { useSession } from "../session.tsx";

const pageSize = 20;
const shownMax = 100;

/** The number of events read for one deployment. A revision has at most about ten. */
const eventsMax = 1_000;

/** The revisions, newest first: what was deployed, who triggered it, how long each step took, and why it failed. */
export function RevisionsPart({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const [shown, setShown] = useState(pageSize);
  const { id } = deployment;
  const { only, revision: linked } = useSearch({ strict: false });
  const revisions = useQuery({
    queryKey: ["deployment", id, "revisions", shown, only],
    queryFn: ({ signal }) => {
      const narrowed = only === undefined ? {} : { status: revisionFilters[only].status };
      return client.listRevisions({ deployment_id: id, limit: shown, ...narrowed }, { signal });
    },
    placeholderData: (before) => before,
  });
  const events = useQuery({
    queryKey: ["deployment", id, "events"],
    queryFn: ({ signal }) =>
      client.listEvents(
        { deployment_ids: [id], types: ["revision.status"], order: "desc", limit: eventsMax },
        { signal },
      ),
  });
  // A link may lead to an older revision than those that are shown.
  const isBehind = linked !== undefined && revisions.data?.resources.every(({ id }) => id !== linked) === true;
  useEffect(() => {
    if (isBehind) setShown(shownMax);
  }, [isBehind]);
  if (revisions.isPending) return <Loading what="the revisions" />;
  if (revisions.isError) return <Failure error={revisions.error} retry={() => void revisions.refetch()} />;
  const rows = revisions.data.resources;
  const moves = Map.groupBy((events.data?.events ?? []).toReversed(), (event) => event.revision_id ?? "");
  if (rows.length === 0 && only === undefined) return <NoRevision deployment={deployment} />;
  return (
    <>
      {/* One revision needs no filter. */}
      {(rows.length > 1 || only !== undefined) && <Filter only={only} />}
      {rows.length === 0 && only !== undefined && <NoMatch only={only} />}
      {[...Map.groupBy(rows, ({ created_at }) => dayOf(created_at))].map(([day, ofDay]) => (
        <section key={day} className="revision-day" aria-label={dayText(day)}>
          <h2>{dayText(day)}</h2>
          <ol className="revision-list">
            {ofDay.map((revision) => (
              <RevisionItem
                key={revision.id}
                deployment={deployment}
                revision={revision}
                earlier={rows[rows.indexOf(revision) + 1]}
                moves={moves.get(revision.id) ?? []}
              />
            ))}
          </ol>
        </section>
      ))}
      {rows.length === shown && shown < shownMax && (
        <button type="button" onClick={() => setShown(Math.min(shownMax, shown + pageSize))}>
          Older revisions
        </button>
      )}
    </>
  );
}

function Filter({ only }: { only: RevisionFilter | undefined }) {
  const navigate = useNavigate();
  const chips = [
    { value: undefined, text: "All" },
    ...(["served", "failed"] as const).map((value) => ({ value, text: revisionFilters[value].text })),
  ];
  return (
    <fieldset className="chips revision-filter" aria-label="Outcome">
      {chips.map(({ value, text }) => (
        <button
          key={text}
          type="button"
          className="chip"
          aria-pressed={only === value}
          onClick={() => void navigate({ to: ".", search: value === undefined ? {} : { only: value }, replace: true })}
        >
          {text}
        </button>
      ))}
    </fieldset>
  );
}

function NoMatch({ only }: { only: RevisionFilter }) {
  return (
    <section className="card blank">
      <h2>{only === "failed" ? "No revision failed" : "No revision has served yet"}</h2>
      <p>{only === "failed" ? "Every build and rollout ended well." : "The first healthy revision appears here."}</p>
      <Link to="." search={{}} className="button">
        Show all revisions
      </Link>
    </section>
  );
}

function NoRevision({ deployment }: { deployment: Deployment }) {
  const action = deployment.source === "internal_docker" ? "Push an image" : "Upload a source";
  return <Notice>There is no revision yet. {action} to create the first one.</Notice>;
}

interface ItemProps {
  deployment: Deployment;
  revision: Revision;
  earlier: Revision | undefined;
  moves: Event[];
}

function RevisionItem({ deployment, revision, earlier, moves }: ItemProps) {
  const { revision: linked } = useSearch({ strict: false });
  const isActive = deployment.active_revision_id === revision.id;
  const isNewest = deployment.latest_revision_id === revision.id;
  const isLinked = linked === revision.id;
  const [isOpen, setOpen] = useState(isNewest || isLinked);
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (!isLinked) return;
    setOpen(true);
    if (!isNewest) item.current?.scrollIntoView({ block: "start" });
  }, [isLinked, isNewest]);
  // The list of revisions may contain a new revision before the deployment names it as its latest.
  const [wasNewest, setWasNewest] = useState(isNewest);
  if (isNewest && !wasNewest) {
    setWasNewest(true);
    setOpen(true);
  }
  // A revision that runs known code has no build to show: what it changed is what people look for.
  const [isDiffOpen, setDiffOpen] = useState(isChangeOnly(revision));
  return (
    <li
      ref={item}
      className={`card revision ${isActive ? "active" : ""}`}
      aria-label={`Revision ${numberText(revision)}`}
    >
      <div className="revision-head">
        <button
          type="button"
          className="quiet icon-only small"
          aria-expanded={isOpen}
          aria-label={`Build log of revision ${numberText(revision)}`}
          onClick={() => setOpen(!isOpen)}
        >
          <ChevronRight size={15} className="chevron" />
        </button>
        <RevisionHeading revision={revision} tookMs={isOpen ? undefined : tookMsOf(revision, moves)} />
        <RevisionStatusMark revision={revision} isActive={isActive} health={deployment.health.status} />
        <RevisionActions deployment={deployment} revision={revision} />
      </div>
      {revision.status_message !== null && (isOpen || isFailure(revision.status)) && (
        <RevisionCause revision={revision} />
      )}
      {(isOpen || isInProgress(revision.status)) && <StepBar revision={revision} moves={moves} />}
      <ListenerWait deployment={deployment} revision={revision} />
      {isOpen && revision.status === "QUEUED" && (
        <p className="soft">This revision is queued. Its build log appears when the build starts.</p>
      )}
      {/* Each followed log takes one of a browser's six connections, and queued revisions write no log. */}
      {isOpen && revision.status !== "QUEUED" && (
        <BuildLog
          of={numberText(revision)}
          question={{ deployment_id: deployment.id, revision_id: revision.id, type: "build" }}
          isBrief={isChangeOnly(revision)}
          builder={<ReusedBuild deployment={deployment} revisionId={revision.id} />}
        />
      )}
      {isOpen && <RevisionIds revision={revision} />}
      {isOpen && (
        <div className="row">
          {earlier !== undefined && (
            <button type="button" className="small" aria-expanded={isDiffOpen} onClick={() => setDiffOpen(!isDiffOpen)}>
              {isDiffOpen ? "Hide" : "Show"} changes since {numberText(earlier)}
            </button>
          )}
          {!isActive && deployment.active_revision_id !== null && (
            <Link
              to="/o/$tenantId/host/deployments/$id/$part"
              params={{ tenantId: deployment.tenant_id, id: deployment.id, part: "playground" }}
              search={{ revision: revision.id }}
              className="button small"
              aria-label={`Try without traffic: revision ${numberText(revision)}`}
            >
              <FlaskConical size={13} /> Try without traffic
            </Link>
          )}
        </div>
      )}
      {isOpen && isDiffOpen && earlier !== undefined && (
        <RevisionDiff deployment={deployment} before={earlier} after={revision} />
      )}
    </li>
  );
}

/** What scripts and messages name a revision by. */
function RevisionIds({ revision }: { revision: Revision }) {
  const { id, artifact_digest: digest, source_revision_config: config } = revision;
  const ids = [
    { name: "Commit", text: config.repo_commit_sha },
    { name: "Image", text: config.image_uri },
    { name: "Digest of the build", text: digest },
    { name: "Revision ID", text: id },
  ];
  return (
    <dl className="revision-ids">
      {ids.map(({ name, text }) =>
        text === null ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <CopyText name={name} text={text} shown={shortOf(text)} />
            </dd>
          </div>
        ),
      )}
    </dl>
  );
}

/** Returns the start of an id or a digest, and other texts as they are. */
const shortOf = (text: string): string =>
  /^(?:sha256:)?[0-9a-f-]{36,64}$/.test(text) ? shortId(text.replace("sha256:", "")) : text;

/** Returns how long a finished revision took from its creation. The step bar says it where it is shown. */
function tookMsOf({ created_at, status }: Revision, moves: Event[]): number | undefined {
  const last = moves.at(-1);
  return last === undefined || isInProgress(status) ? undefined : Date.parse(last.created_at) - Date.parse(created_at);
}

/** Statuses in which a revision waits for its listener. */
const listenerStatuses = ["AWAITING_DEPLOY", "DEPLOYING"];
const listenerRenewMs = 5_000;

/** Names the listener and when it was last seen, because a silent listener explains why a revision makes no progress. */
function ListenerWait({ deployment, revision }: { deployment: Deployment; revision: Revision }) {
  const { client } = useSession();
  const id = deployment.source_config.listener_id ?? null;
  const isWaiting = id !== null && listenerStatuses.includes(revision.status);
  const listener = useQuery({
    queryKey: ["listener", id],
    queryFn: ({ signal }) => client.getListener({ listener_id: id ?? "" }, { signal }),
    enabled: isWaiting,
    refetchInterval: listenerRenewMs,
  });
  if (!isWaiting || listener.data === undefined) return null;
  const { compute_id, last_seen_at } = listener.data;
  return (
    <p role="status">
      Waiting for listener <b>{compute_id}</b>,{" "}
      {last_seen_at === null ? (
        "which has never connected"
      ) : (
        <>
          last seen <Ago at={last_seen_at} />
        </>
      )}
      .
    </p>
  );
}
