import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { CopyAs } from "../parts/copy-as.tsx";
import { ConfirmByName } from "../parts/dialog.tsx";
import { useToasts } from "../parts/toasts.tsx";
import type { Deployment } from "../parts/words.ts";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";

/** Deletes a deployment after the user typed its name. */
export function DeleteDeployment({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const { notify, notifyError } = useToasts();
  const navigate = useNavigate();
  const [isAsking, setAsking] = useState(false);
  const [withTraces, setWithTraces] = useState(false);
  const revisions = useQuery({
    queryKey: ["deployment", deployment.id, "revisions", 100],
    queryFn: ({ signal }) => client.listRevisions({ deployment_id: deployment.id, limit: 100 }, { signal }),
    enabled: isAsking,
  });
  const input = { deployment_id: deployment.id, delete_tracing_project: withTraces };
  const remove = useMutation({
    mutationFn: () => client.deleteDeployment(input),
    onError: notifyError,
    onSuccess: () => {
      notify(`${deployment.name} is being deleted.`);
      void queries.invalidateQueries({ queryKey: ["deployments"] });
      void navigate({ to: "/host/deployments" });
    },
  });
  const count = revisions.data?.resources.length ?? 0;
  return (
    <section className="card">
      <h2>Delete deployment</h2>
      <p>Stops the replicas and deletes all data of this deployment.</p>
      <div className="row">
        <button type="button" className="danger" onClick={() => setAsking(true)}>
          Delete this deployment …
        </button>
        <CopyAs
          call={{
            ...{ id: "deleteDeployment", input },
            cli: withTraces ? undefined : `npx pierhead delete ${deployment.id}`,
          }}
        />
      </div>
      {isAsking && (
        <ConfirmByName
          title={`Delete ${deployment.name}`}
          name={deployment.name}
          action="Delete deployment"
          isBusy={remove.isPending}
          onConfirm={() => remove.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>This cannot be undone. It deletes:</p>
          <ul>
            <li>its replicas with their requests in progress, and the address {deployment.url}</li>
            <li>{count === 100 ? "100 or more" : count} revisions with their build logs, so you cannot roll back</li>
            <li>its database and the state of its threads</li>
            <li>{deployment.secrets.length} variables, and its log lines and charts</li>
          </ul>
          {deployment.tracer_session_id !== null && (
            <label className="row">
              <input type="checkbox" checked={withTraces} onChange={(event) => setWithTraces(event.target.checked)} />{" "}
              Also delete its tracing project
            </label>
          )}
        </ConfirmByName>
      )}
    </section>
  );
}
