import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { builderLookupMax, builderOf } from "../../../src/domain/reused-artifact.ts";
import { useSession } from "../session.tsx";
import { numberText } from "./revision-words.tsx";

/** Leads to the first revision that ran the artifact of another one, because its log has the build unless another deployment built it. */
export function ReusedBuild({ deployment, revisionId }: { deployment: Deployment; revisionId: string }) {
  const { client } = useSession();
  const { id, tenant_id: tenantId } = deployment;
  const found = useQuery({
    queryKey: ["deployment", id, "revisions", builderLookupMax, undefined],
    queryFn: ({ signal }) => client.listRevisions({ deployment_id: id, limit: builderLookupMax }, { signal }),
  });
  const builder = builderOf(found.data?.resources ?? [], revisionId);
  if (builder === null) return null;
  return (
    <Link
      to="/o/$tenantId/host/deployments/$id/$part"
      params={{ tenantId, id, part: "revisions" }}
      search={{ revision: builder.id }}
      className="link"
    >
      First used by revision {numberText(builder)}
    </Link>
  );
}
