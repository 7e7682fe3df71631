import { useQuery } from "@tanstack/react-query";
import { About } from "../overview/about.tsx";
import { PlaygroundLink, Waiting } from "../overview/agent-cards.tsx";
import { Deploys } from "../overview/deploys.tsx";
import { Events } from "../overview/events.tsx";
import { LastDay } from "../overview/last-day.tsx";
import { MainRevision } from "../overview/main-revision.tsx";
import { Replicas } from "../overview/replicas.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
import type { Deployment } from "../parts/words.ts";
import { useSession } from "../session.tsx";

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
        <Deploys deployment={deployment} revisions={rows} events={found} />
      </div>
      <div className="stack">
        <Waiting deployment={deployment} />
        {active !== undefined && active.engine !== null && active.engine !== "own" && (
          <PlaygroundLink deployment={deployment} />
        )}
        <Replicas deployment={deployment} />
        <About deployment={deployment} served={active ?? rows[0]} />
        <Events events={found} revisions={rows} />
      </div>
    </div>
  );
}
