import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef } from "react";
import type { AuditEntry } from "../../../src/contract/administration/audit.ts";
import { actWords, auditSubjects, changeWords } from "../parts/audit-words.ts";
import { Avatar } from "../parts/avatar.tsx";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { dayOf, dayText } from "../parts/day-text.ts";
import { Failure, Loading } from "../parts/notices.tsx";
import { PageTitle } from "../parts/page-head.tsx";
import { SearchField, useSearchText } from "../parts/search-field.tsx";
import { type AuditSearch, auditSearchOf, auditSpans } from "../search.ts";
import { useSession } from "../session.tsx";

const pageSize = 50;
const dayMs = 86_400_000;

/** The pause in typing after which the page asks the server. */
const typingPauseMs = 200;

/** The list of changes and who made them. It names secrets but never shows their values. */
export function AuditPage() {
  const { workspaceId } = useSession();
  const search = auditSearchOf(useSearch({ strict: false }));
  const filter = useFilter(search, workspaceId);
  const log = useLog(filter);
  const command = `npx pierhead admin audit --for ${workspaceId}`;
  const options = (["action", "actor", "text", "since"] as const).map((name) => {
    const value = filter[name];
    return value === undefined ? "" : ` --${name} ${shellWord(value)}`;
  });
  const entries = log.data?.pages.flatMap(({ items }) => items) ?? [];
  const isSearching = log.isPending || (entries.length === 0 && log.hasNextPage && !log.isError);
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
      <Filters search={search} entries={entries} />
      {isSearching && <Loading what="the audit log" />}
      {log.isError && <Failure error={log.error} retry={() => void log.refetch()} />}
      {log.data && entries.length === 0 && !log.hasNextPage && <NoEntries search={search} />}
      {entries.length > 0 && <Entries entries={entries} />}
      {log.hasNextPage && !isSearching && (
        <button type="button" onClick={() => void log.fetchNextPage()} disabled={log.isFetchingNextPage}>
          Load older entries
        </button>
      )}
    </>
  );
}

/** Reads the log page by page. The server bounds a search for words, so it goes on until there is an entry to show. */
function useLog(filter: ReturnType<typeof useFilter>) {
  const { client } = useSession();
  const log = useInfiniteQuery({
    queryKey: ["audit", filter],
    queryFn: ({ signal, pageParam }) =>
      client.listAuditLog(
        { ...filter, page_size: pageSize, ...(pageParam !== "" && { cursor: pageParam }) },
        { signal },
      ),
    initialPageParam: "",
    getNextPageParam: ({ next_cursor }) => next_cursor,
    placeholderData: keepPreviousData,
  });
  const { data, hasNextPage, isFetching, isError, fetchNextPage } = log;
  const isEmpty = data?.pages.every(({ items }) => items.length === 0) === true;
  useEffect(() => {
    if (isEmpty && hasNextPage && !isFetching && !isError) void fetchNextPage();
  }, [isEmpty, hasNextPage, isFetching, isError, fetchNextPage]);
  return log;
}

/** Returns the parameters of the API. The start of the time range stays until another range is chosen. */
function useFilter({ q, who, what, days }: AuditSearch, workspace_id: string) {
  const since = useMemo(
    () => (days === undefined ? undefined : new Date(Date.now() - Number(days) * dayMs).toISOString()),
    [days],
  );
  return {
    workspace_id,
    ...(what !== undefined && { action: what }),
    ...(who !== undefined && { actor: who }),
    ...(q !== undefined && { text: q }),
    ...(since !== undefined && { since }),
  };
}

function useChange() {
  const navigate = useNavigate();
  return useCallback(
    (changed: Partial<Record<keyof AuditSearch, string>>) =>
      void navigate({ to: ".", search: (now) => auditSearchOf({ ...now, ...changed }), replace: true }),
    [navigate],
  );
}

function NoEntries({ search }: { search: AuditSearch }) {
  if (Object.keys(search).length === 0) return <p className="soft">Nothing has been changed yet.</p>;
  return (
    <section className="card blank">
      <h2>No entries match{search.q === undefined ? " this filter" : ` “${search.q}”`}</h2>
      <p>The search looks for names, fields with their values, and names of variables.</p>
      <Link to="." search={{}} className="button">
        Show all entries
      </Link>
    </section>
  );
}

function Filters({ search, entries }: { search: AuditSearch; entries: AuditEntry[] }) {
  const { q = "", who = "", what = "", days = "" } = search;
  const change = useChange();
  // Actors that were seen stay in the list when it shows the changes of one of them only.
  const seen = useRef(new Map<string, string>());
  if (who !== "" && !seen.current.has(who)) seen.current.set(who, who);
  for (const { actor: id, actor_name: name } of entries) seen.current.set(id, name ?? whoIs(id));
  return (
    <search className="filters">
      <TextFilter q={q} onText={(text) => change({ q: text })} />
      <div className="filter-choices">
        <select aria-label="Who" value={who} onChange={({ target }) => change({ who: target.value })}>
          <option value="">Anybody</option>
          {[...seen.current].map(([id, name]) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
        <select aria-label="What" value={what} onChange={({ target }) => change({ what: target.value })}>
          <option value="">Anything</option>
          {auditSubjects.map(({ value, text }) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
        <select aria-label="When" value={days} onChange={({ target }) => change({ days: target.value })}>
          <option value="">Any time</option>
          {Object.entries(auditSpans).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </div>
    </search>
  );
}

function TextFilter({ q, onText }: { q: string; onText: (text: string) => void }) {
  const [text, setText] = useSearchText({ inAddress: q, onText, pauseMs: typingPauseMs, lengthMax: 200 });
  return (
    <SearchField
      label="Search the audit log"
      placeholder="Name, field, value or variable"
      value={text}
      onText={setText}
    />
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
      <Avatar name={who} isPerson={actor.startsWith("member:")} />
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
