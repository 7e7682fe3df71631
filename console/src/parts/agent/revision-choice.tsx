import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { Deployment } from "../../../../src/contract/deployments/deployment.ts";
import { useSession } from "../../session.tsx";
import { numberText, revisionWord } from "../revision-words.tsx";

const offeredMax = 20;

/** Chooses the revision of the playground. Hidden while there is only one. `shown`: the id of the chosen one. */
export function RevisionChoice({ deployment, shown }: { deployment: Deployment; shown: string }) {
  const { client } = useSession();
  const navigate = useNavigate();
  const { id, tenant_id: tenantId, active_revision_id: active } = deployment;
  const found = useQuery({
    queryKey: ["deployment", id, "revisions", offeredMax, undefined],
    queryFn: ({ signal }) => client.listRevisions({ deployment_id: id, limit: offeredMax }, { signal }),
  });
  const revisions = found.data?.resources ?? [];
  if (revisions.length < 2) return null;
  return (
    <select
      className="revision-choice"
      aria-label="Revision"
      value={shown}
      onChange={({ target }) =>
        void navigate({
          to: "/o/$tenantId/host/deployments/$id/$part",
          params: { tenantId, id, part: "playground" },
          search: target.value === active ? {} : { revision: target.value },
        })
      }
    >
      {revisions.map((revision) => (
        <option key={revision.id} value={revision.id}>
          Revision {numberText(revision)}: {revisionWord(revision, revision.id === active).toLowerCase()}
        </option>
      ))}
      {/* Older ones are reached from the list of revisions. */}
      {revisions.every((revision) => revision.id !== shown) && <option value={shown}>An older revision</option>}
    </select>
  );
}
