import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useRecent } from "../recent.ts";
import { ownerOf, useSession } from "../session.tsx";
import { Light, statusText } from "./status.tsx";
import { attentionWords, type Deployment } from "./words.ts";

const shownMax = 5;

/** The deployments that need the attention of a user, and those that the user opened last. Each list is hidden while empty. */
export function SideLists() {
  const { client, workspaceId, session } = useSession();
  const attention = useQuery({
    queryKey: ["deployments", workspaceId, "attention"],
    queryFn: ({ signal }) =>
      client.listDeployments({ health: [...attentionWords], sort_by: "health", limit: shownMax }, { signal }),
  });
  const ids = useRecent(ownerOf(session, workspaceId));
  const recent = useQuery({
    queryKey: ["deployments", workspaceId, "recent", ids],
    queryFn: ({ signal }) => client.listDeployments({ deployment_ids: ids.join(","), limit: ids.length }, { signal }),
    placeholderData: keepPreviousData,
    enabled: ids.length > 0,
  });
  const needing = attention.data?.resources ?? [];
  const found = new Map(recent.data?.resources.map((row) => [row.id, row]));
  const opened = ids
    .flatMap((id) => found.get(id) ?? [])
    .filter(({ id }) => needing.every((one) => one.id !== id))
    .slice(0, shownMax);
  return (
    <>
      <SideList title="Needs a look" rows={needing} />
      <SideList title="Recent" rows={opened} />
    </>
  );
}

function SideList({ title, rows }: { title: string; rows: Deployment[] }) {
  const { id } = useParams({ strict: false });
  if (rows.length === 0) return null;
  return (
    <nav aria-label={title}>
      <p className="side-title">{title}</p>
      {rows.map((row) => (
        <Link
          key={row.id}
          to="/o/$tenantId/host/deployments/$id"
          params={{ tenantId: row.tenant_id, id: row.id }}
          className="side-link"
          aria-current={row.id === id ? "page" : undefined}
        >
          <Light of={row.health.status} />
          <span className="clip">{row.display_name ?? row.name}</span>
          <span className="sr">, {statusText(row.health.status)}</span>
        </Link>
      ))}
    </nav>
  );
}
