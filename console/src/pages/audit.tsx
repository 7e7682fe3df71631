import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef, useState } from "react";
import type { AuditEntry } from "../../../src/contract/administration/audit.ts";
import { actWords, auditSubjects, changeWords } from "../parts/audit-words.ts";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { dayOf, dayText } from "../parts/day-text.ts";
import { Failure, Loading } from "../parts/notices.tsx";
import { PageTitle } from "../parts/page-head.tsx";
import { useSession } from "../session.tsx";

const pageSize = 50;
const dayMs = 86_400_000;

const spans = { "": "Any time", "1": "Last 24 hours", "7": "Last 7 days", "30": "Last 30 days" } as const;

/** The list of changes and who made them. It names secrets but never shows their values. */
export function AuditPage() {
  const { client, workspaceId } = useSession();
  const [action, setAction] = useState("");
  const [actor, setActor] = useState("");
  const [{ days, since }, setSpan] = useState<{ days: string; since: string | null }>({ days: "", since: null });
  const filter = {
    workspace_id: workspaceId,
    ...(action !== "" && { action }),
    ...(actor !== "" && { actor }),
    ...(since !== null && { since }),
  };
  const log = useInfiniteQuery({
    queryKey: ["audit", filter],
    queryFn: ({ signal, pageParam }) =>
      client.listAuditLog(
        { ...filter, page_size: pageSize, ...(pageParam !== "" && { cursor: pageParam }) },
        { signal },
      ),
    initialPageParam: "",
    getNextPageParam: ({ next_cursor }) => next_cursor,
  });
  const command = `npx pierhead admin audit --for ${workspaceId}`;
  const options = (["action", "actor", "since"] as const).map((name) => {
    const value = filter[name];
    return value === undefined ? "" : ` --${name} ${shellWord(value)}`;
  });
  const entries = log.data?.pages.flatMap(({ items }) => items) ?? [];
  // Actors that were seen stay in the list when it shows the changes of one of them only.
  const seen = useRef(new Map<string, string>());
  for (const { actor: id, actor_name: name } of entries) seen.current.set(id, name ?? whoIs(id));
  return (
    <>
      <div className="page-head">
        <PageTitle title="Audit log" about="Who changed what. It names secrets but never shows their values." />
        <div className="row">
          <CopyAs call={{ id: "listAuditLog", input: filter, cli: command + options.join("") }} />
          <button type="button" onClick={() => save(entries)} disabled={entries.length === 0}>
            Export entries
          </button>
        </div>
      </div>
      <search className="filters">
        <select aria-label="Who" value={actor} onChange={(event) => setActor(event.target.value)}>
          <option value="">Anybody</option>
          {[...seen.current].map(([id, name]) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
        <select aria-label="What" value={action} onChange={(event) => setAction(event.target.value)}>
          <option value="">Anything</option>
          {auditSubjects.map(({ value, text }) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
        <select
          aria-label="When"
          value={days}
          onChange={({ target: { value } }) => {
            const startMs = Date.now() - Number(value) * dayMs;
            setSpan({ days: value, since: value === "" ? null : new Date(startMs).toISOString() });
          }}
        >
          {Object.entries(spans).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </search>
      {log.isPending && <Loading what="the audit log" />}
      {log.isError && <Failure error={log.error} retry={() => void log.refetch()} />}
      {log.data && entries.length === 0 && <p className="soft">No entries match this filter.</p>}
      {entries.length > 0 && <Entries entries={entries} />}
      {log.hasNextPage && (
        <button type="button" onClick={() => void log.fetchNextPage()} disabled={log.isFetchingNextPage}>
          Load older entries
        </button>
      )}
    </>
  );
}

/** The entries by day, newest first, each as a sentence. */
function Entries({ entries }: { entries: AuditEntry[] }) {
  const days = Map.groupBy(entries, ({ created_at }) => dayOf(created_at));
  return (
    <div className="audit">
      {[...days].map(([day, ofDay]) => (
        <section key={day} className="audit-day" aria-label={dayText(day)}>
          <h2 className="audit-date">{dayText(day)}</h2>
          <ol className="audit-entries">
            {repeated(ofDay).map(({ entry, count, since }) => (
              <Entry key={entry.id} entry={entry} count={count} since={since} />
            ))}
          </ol>
        </section>
      ))}
    </div>
  );
}

interface Repeated {
  /** The newest one. */
  entry: AuditEntry;
  count: number;
  /** Time of the oldest one. */
  since: string;
}

/** Joins entries after each other that say the same, such as the calls of one conversation. Entries with changes stay apart. */
function repeated(entries: readonly AuditEntry[]): Repeated[] {
  const found: Repeated[] = [];
  for (const entry of entries) {
    const last = found.at(-1);
    const isSame =
      last !== undefined && sentenceOf(last.entry) === sentenceOf(entry) && changeWords(entry).length === 0;
    if (isSame) Object.assign(last, { count: last.count + 1, since: entry.created_at });
    else found.push({ entry, count: 1, since: entry.created_at });
  }
  return found;
}

const sentenceOf = (entry: AuditEntry): string =>
  JSON.stringify([entry.actor, entry.action, entry.subject_id, entry.deployment_id, changeWords(entry)]);

const timeText = (at: string) => new Date(at).toLocaleTimeString(undefined, { hourCycle: "h23" });

const whoIs = (actor: string) => (actor === "system" ? "Pierhead" : actor);

function Entry({ entry, count, since }: Repeated) {
  const { created_at, actor, actor_name, action, deployment_id, subject_name, subject_id, workspace_id } = entry;
  const who = actor_name ?? whoIs(actor);
  // A session is its actor's own.
  const subject = action.startsWith("session.") ? null : (subject_name ?? subject_id);
  const changes = changeWords(entry);
  return (
    <li className="audit-entry">
      <time className="audit-time" dateTime={created_at} title={new Date(created_at).toLocaleString()}>
        {timeText(created_at)}
      </time>
      <span className="avatar" aria-hidden="true">
        {who.slice(0, 1).toUpperCase()}
      </span>
      <div>
        <p className="audit-said" title={action}>
          <b>{who}</b> {actWords(action)}{" "}
          {subject !== null &&
            (deployment_id !== null && workspace_id !== null && action !== "deployment.delete" ? (
              <Link to="/o/$tenantId/host/deployments/$id" params={{ tenantId: workspace_id, id: deployment_id }}>
                {subject}
              </Link>
            ) : (
              subject
            ))}
          {count > 1 && (
            <span className="softer">
              {" "}
              {count} times since {timeText(since)}
            </span>
          )}
        </p>
        {changes.length > 0 && (
          <ul className="audit-changes" aria-label="Changes">
            {changes.map((change) => (
              <li key={change} className="audit-change">
                {change}
              </li>
            ))}
          </ul>
        )}
      </div>
    </li>
  );
}

function save(entries: AuditEntry[]): void {
  const url = URL.createObjectURL(
    new Blob(
      entries.map((entry) => `${JSON.stringify(entry)}\n`),
      { type: "application/x-ndjson" },
    ),
  );
  Object.assign(document.createElement("a"), { href: url, download: "audit-log.jsonl" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1_000);
}
