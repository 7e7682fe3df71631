import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Check } from "lucide-react";
import type { AuditEntry } from "../../../../src/contract/administration/audit.ts";
import { endOf } from "../../agent/types.ts";
import { useSession } from "../../session.tsx";
import { Avatar } from "../avatar.tsx";
import { Failure, Loading } from "../notices.tsx";
import { Ago } from "../time.tsx";

const pageSize = 50;

/**
 * Who answered requests of agents in the console, newest first, from the audit log. The log has neither the question nor the
 * answer, which are the agent's: its thread has them.
 */
export function AnsweredList() {
  const { mayAdminister } = useSession();
  return mayAdminister ? (
    <Log />
  ) : (
    <section className="card blank">
      <h2>Admins see who answered</h2>
      <p>Answers are recorded in the audit log, which only admins may read. Each thread shows its own answers.</p>
    </section>
  );
}

function Log() {
  const { client, workspaceId } = useSession();
  const filter = { workspace_id: workspaceId, action: "agent.answer", page_size: pageSize };
  const log = useInfiniteQuery({
    queryKey: ["audit", "answers", workspaceId],
    queryFn: ({ signal, pageParam }) =>
      client.listAuditLog({ ...filter, ...(pageParam !== "" && { cursor: pageParam }) }, { signal }),
    initialPageParam: "",
    getNextPageParam: ({ next_cursor }) => next_cursor,
    refetchOnMount: "always",
  });
  if (log.isPending) return <Loading what="the answers" />;
  if (log.isError) return <Failure error={log.error} retry={() => void log.refetch()} />;
  const entries = log.data.pages.flatMap(({ items }) => items);
  if (entries.length === 0)
    return (
      <section className="card blank">
        <h2>No request has been answered yet</h2>
        <p>Answers that are given in the console appear here, with who gave them and when.</p>
      </section>
    );
  return (
    <>
      <ul className="asks answers plain" aria-label="Answered">
        {entries.map((entry) => (
          <Answer key={entry.id} entry={entry} />
        ))}
      </ul>
      {log.hasNextPage && (
        <button type="button" onClick={() => void log.fetchNextPage()} disabled={log.isFetchingNextPage}>
          Load older answers
        </button>
      )}
    </>
  );
}

function Answer({ entry }: { entry: AuditEntry }) {
  const { actor, actor_name: name, created_at: at, deployment_id: id, workspace_id: tenantId, subject_name } = entry;
  const thread = threadIn(entry.details["path"]);
  const who = name ?? actor;
  return (
    <li className="answer">
      <Check size={14} className="good-text" />
      <span className="by">
        <Avatar name={who} isPerson={actor.startsWith("member:")} /> <b>{who}</b>
      </span>
      <span className="clip">
        answered{" "}
        {id !== null && tenantId !== null ? (
          <Link to="/o/$tenantId/host/deployments/$id" params={{ tenantId, id }}>
            {subject_name ?? "a deployment"}
          </Link>
        ) : (
          subject_name
        )}
      </span>
      <Ago at={at} />
      {thread !== null && id !== null && tenantId !== null && (
        <Link
          to="/o/$tenantId/host/deployments/$id/$part"
          params={{ tenantId, id, part: "threads" }}
          search={{ thread }}
          className="link"
        >
          Read thread <span className="mono">{endOf(thread)}</span>
        </Link>
      )}
    </li>
  );
}

function threadIn(path: unknown): string | null {
  const [, id] = /^\/threads\/([^/]+)\/runs/.exec(String(path)) ?? [];
  if (id === undefined) return null;
  try {
    return decodeURIComponent(id);
  } catch {
    return null;
  }
}
