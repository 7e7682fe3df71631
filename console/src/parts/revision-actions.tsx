import { useMutation } from "@tanstack/react-query";
import { Undo2 } from "lucide-react";
import { useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";
import { CopyAs } from "./copy-as.tsx";
import { numberText } from "./revision-words.tsx";
import { RollbackDialog } from "./rollback-dialog.tsx";
import { isInProgress } from "./status.tsx";
import { useToasts } from "./toasts.tsx";

/** Cancels a revision in progress, redeploys the serving or a failed one, or rolls back to an earlier one without a build. */
export function RevisionActions({ deployment, revision }: { deployment: Deployment; revision: Revision }) {
  const { client, mayChange } = useSession();
  const { notify, notifyError } = useToasts();
  const ids = { deployment_id: deployment.id, revision_id: revision.id };
  const done = (text: string) => () => {
    notify(text);
    void queries.invalidateQueries({ queryKey: ["deployment", deployment.id] });
  };
  const redeploy = useMutation({
    mutationFn: () => client.redeployRevision(ids),
    onError: notifyError,
    onSuccess: done("Created a new revision."),
  });
  const interrupt = useMutation({
    mutationFn: () => client.interruptRevision(ids),
    onError: notifyError,
    onSuccess: done("Cancelled."),
  });
  const isActive = deployment.active_revision_id === revision.id;
  const isRollback = !isActive && revision.status === "DEPLOYED";
  const isFailed = revision.status.endsWith("_FAILED");
  const label = isRollback ? "Roll back" : isFailed ? "Try again" : "Redeploy";
  const [isAsking, setAsking] = useState(false);
  if (!mayChange) return null;
  return (
    <div className="row">
      {isInProgress(revision.status) ? (
        <button type="button" className="small" onClick={() => interrupt.mutate()} disabled={interrupt.isPending}>
          Cancel
        </button>
      ) : (
        <button
          type="button"
          className="small"
          onClick={() => (isRollback ? setAsking(true) : redeploy.mutate())}
          disabled={redeploy.isPending}
          aria-label={`${label}: revision ${numberText(revision)}`}
        >
          {isRollback && <Undo2 size={13} />} {label}
        </button>
      )}
      <CopyAs
        call={
          isInProgress(revision.status)
            ? { id: "interruptRevision", input: ids, cli: `npx pierhead cancel ${deployment.id}` }
            : {
                id: isRollback ? "rollbackRevision" : "redeployRevision",
                input: ids,
                cli: `npx pierhead ${isRollback ? "rollback" : "redeploy"} ${deployment.id} ${revision.id}`,
              }
        }
      />
      {isAsking && (
        <RollbackDialog
          deployment={deployment}
          revision={revision}
          onClose={() => setAsking(false)}
          onDone={() => {
            setAsking(false);
            done("Created a new revision.")();
          }}
        />
      )}
    </div>
  );
}
