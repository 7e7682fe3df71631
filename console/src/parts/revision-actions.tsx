import { useMutation } from "@tanstack/react-query";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";
import { CopyAs } from "./copy-as.tsx";
import { isUnderWay } from "./status.tsx";
import { shortId } from "./text.ts";
import { useToasts } from "./toasts.tsx";

/** Cancel what is under way; run again what serves or failed; go back to what served before, without a build. */
export function RevisionActions({ deployment, revision }: { deployment: Deployment; revision: Revision }) {
  const { client, mayChange } = useSession();
  const { say, fail } = useToasts();
  const ids = { deployment_id: deployment.id, revision_id: revision.id };
  const done = (text: string) => () => {
    say(text);
    void queries.invalidateQueries({ queryKey: ["deployment", deployment.id] });
  };
  const redeploy = useMutation({
    mutationFn: () => client.redeployRevision(ids),
    onError: fail,
    onSuccess: done("A new revision was made of it."),
  });
  const interrupt = useMutation({
    mutationFn: () => client.interruptRevision(ids),
    onError: fail,
    onSuccess: done("Cancelled."),
  });
  const isActive = deployment.active_revision_id === revision.id;
  const isBack = !isActive && revision.status === "DEPLOYED";
  const label = isBack ? "Roll back to this" : "Redeploy";
  if (!mayChange) return null;
  return (
    <div className="row">
      {isUnderWay(revision.status) ? (
        <button type="button" onClick={() => interrupt.mutate()} disabled={interrupt.isPending}>
          Cancel
        </button>
      ) : (
        <button
          type="button"
          onClick={() => redeploy.mutate()}
          disabled={redeploy.isPending}
          aria-label={`${label}: revision ${shortId(revision.id)}`}
        >
          {label}
        </button>
      )}
      <CopyAs
        call={
          isUnderWay(revision.status)
            ? { id: "interruptRevision", input: ids, cli: `npx pierhead cancel ${deployment.id}` }
            : {
                id: "redeployRevision",
                input: ids,
                cli: `npx pierhead ${isBack ? "rollback" : "redeploy"} ${deployment.id} ${revision.id}`,
              }
        }
      />
    </div>
  );
}
