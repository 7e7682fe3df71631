import { useNavigate, useSearch } from "@tanstack/react-router";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { LogExplorer } from "../logs/log-explorer.tsx";
import { logSearchOf } from "../search.ts";

/** The log of one deployment: the lines of its replicas, and those of its builds on demand. */
export function LogsPart({ deployment }: { deployment: Deployment }) {
  const navigate = useNavigate();
  const search = useSearch({ strict: false });
  return (
    <LogExplorer
      deployment={deployment}
      search={logSearchOf(search)}
      onSearch={(next, replace = false) =>
        void navigate({
          to: "/o/$tenantId/host/deployments/$id/$part",
          params: { tenantId: deployment.tenant_id, id: deployment.id, part: "logs" },
          search: next,
          replace,
        })
      }
    />
  );
}
