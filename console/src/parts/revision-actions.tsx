import { useMutation, useQuery } from "@tanstack/react-query";
import { Undo2 } from "lucide-react";
import { useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";
import { CopyAs } from "./copy-as.tsx";
import { Dialog } from "./dialog.tsx";
import { RevisionDiff } from "./revision-diff.tsx";
import { numberText } from "./revision-words.tsx";
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
  const label = isRollback ? "Roll back" : "Redeploy";
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
                id: "redeployRevision",
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
          onConfirm={() => {
            setAsking(false);
            redeploy.mutate();
          }}
        />
      )}
    </div>
  );
}

/** Says what a rollback does before it happens, with the differences to the revision that serves. */
function RollbackDialog(props: {
  deployment: Deployment;
  revision: Revision;
  onClose: () => void;
  onConfirm: () => void;
}) {
  const { deployment, revision, onClose, onConfirm } = props;
  const { client } = useSession();
  const active = deployment.active_revision_id;
  const ids = { deployment_id: deployment.id, revision_id: active ?? "" };
  const serving = useQuery({
    queryKey: ["deployment", deployment.id, "revision", active],
    queryFn: ({ signal }) => client.getRevision(ids, { signal }),
    enabled: active !== null,
  });
  const number = numberText(revision);
  return (
    <Dialog title={`Roll back to revision ${number}?`} onClose={onClose}>
      <p className="soft">
        {serving.data !== undefined && `Revision ${numberText(serving.data)} serves until ${number} is healthy. `}
        The build of {number} is kept, so nothing is built. It runs with the current variables and size.
      </p>
      {serving.data !== undefined && (
        <RevisionDiff deployment={deployment} before={serving.data} after={revision} isSourceOnly />
      )}
      <div className="row end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" className="primary" onClick={onConfirm}>
          Roll back to {number}
        </button>
      </div>
    </Dialog>
  );
}
