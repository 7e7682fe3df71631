import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Deployment } from "../../../../src/contract/deployments/deployment.ts";
import { useSession } from "../../session.tsx";
import { numberText } from "../revision-words.tsx";
import { statusText } from "../status.tsx";

/**
 * Shows which revision answers while the newest one does not serve, because the conversation then does not test the
 * newest code.
 */
export function ServedBy({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const { id, tenant_id: tenantId, active_revision_id: active, latest_revision_id: latest } = deployment;
  const revisions = useQuery({
    queryKey: ["deployment", id, "served-by", active, latest],
    queryFn: ({ signal }) =>
      Promise.all(
        [active, latest].map((revision) =>
          client.getRevision({ deployment_id: id, revision_id: revision ?? "" }, { signal }),
        ),
      ),
    enabled: active !== null && latest !== null && active !== latest,
  });
  const [serving, newest] = revisions.data ?? [];
  if (active === latest || serving === undefined || newest === undefined) return null;
  return (
    <p className="softer" role="status">
      Revision {numberText(serving)} answers here.{" "}
      <Link
        to="/o/$tenantId/host/deployments/$id/$part"
        params={{ tenantId, id, part: "playground" }}
        search={{ revision: newest.id }}
        className="link"
      >
        Revision {numberText(newest)}
      </Link>{" "}
      does not serve: {statusText(newest.status).toLowerCase()}.
    </p>
  );
}
