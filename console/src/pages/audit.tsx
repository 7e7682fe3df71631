import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { AuditEntry } from "../../../src/contract/administration/audit.ts";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
import { Ago } from "../parts/time.tsx";
import { useSession } from "../session.tsx";

const pageSize = 50;

/** The list of changes and who made them. It names secrets but never shows their values. */
export function AuditPage() {
  const { client, workspaceId } = useSession();
  const [action, setAction] = useState("");
  const filter = { workspace_id: workspaceId, ...(action.trim() !== "" && { action: action.trim() }) };
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
  const ofAction = filter.action === undefined ? "" : ` --action ${shellWord(filter.action)}`;
  const entries = log.data?.pages.flatMap(({ items }) => items) ?? [];
  return (
    <>
      <div className="page-head">
        <h1>Audit log</h1>
        <div className="row">
          <button type="button" onClick={() => save(entries)} disabled={entries.length === 0}>
            Export entries
          </button>
          <CopyAs call={{ id: "listAuditLog", input: filter, cli: command + ofAction }} />
        </div>
      </div>
      <search className="filters">
        <input
          type="search"
          aria-label="Action"
          placeholder="Action, such as deployment or deployment.patch"
          value={action}
          onChange={(event) => setAction(event.target.value)}
        />
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

function Entries({ entries }: { entries: AuditEntry[] }) {
  return (
    <table className="list" aria-label="Audit log">
      <thead>
        <tr>
          {["Time", "Actor", "Action", "Subject", "Changes"].map((name) => (
            <th key={name}>{name}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {entries.map((entry) => (
          <tr key={entry.id}>
            <td data-label="Time">
              <Ago at={entry.created_at} />
            </td>
            <td data-label="Actor">{entry.actor_name ?? entry.actor}</td>
            <td data-label="Action">{entry.action}</td>
            <td data-label="Subject">{entry.subject_name ?? entry.subject_id ?? "–"}</td>
            <td data-label="Changes">{changeText(entry)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function changeText({ changes, secrets }: AuditEntry): string {
  const fields = Object.entries(changes).map(
    ([name, { before, after }]) => `${name}: ${JSON.stringify(before)} → ${JSON.stringify(after)}`,
  );
  const { added = [], removed = [], changed = [] } = secrets ?? {};
  const names = [
    ...added.map((name) => `+${name}`),
    ...removed.map((name) => `-${name}`),
    ...changed.map((name) => `~${name}`),
  ];
  return [...fields, ...names].join(", ");
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
