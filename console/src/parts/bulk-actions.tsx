import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { queries, textOf } from "../server.ts";
import { useSession } from "../session.tsx";
import { ConfirmByName } from "./dialog.tsx";
import { ActionButton } from "./resource-page.tsx";
import { useToasts } from "./toasts.tsx";
import type { Deployment } from "./words.ts";

/** The bar that acts on the selected deployments. */
export function BulkActions({ chosen, onDone }: { chosen: Deployment[]; onDone: () => void }) {
  const { client } = useSession();
  const { notify, notifyError } = useToasts();
  const [isAsking, setAsking] = useState(false);
  const remove = useMutation({
    mutationFn: () => client.deleteDeployments({ deployment_ids: chosen.map(({ id }) => id) }),
    onError: notifyError,
    onSuccess: ({ deleted, failed }) => {
      notify(
        `Deleting ${deleted.length} deployments${failed.length > 0 ? `, ${failed.length} failed: ${failed[0]?.detail}` : ""}.`,
      );
      setAsking(false);
      onDone();
      void queries.invalidateQueries({ queryKey: ["deployments"] });
    },
  });
  if (chosen.length === 0) return null;
  return (
    <section className="row bulk" aria-label="Selected deployments">
      <span>{chosen.length} selected</span>
      <button type="button" className="quiet" onClick={onDone}>
        Clear
      </button>
      {chosen.every(({ source }) => source === "github") && (
        <ActionButton
          text="Deploy latest"
          confirm={`Deploys the latest commit of the branch of ${manyText(chosen)}. Each goes on serving until its new revision is ready.`}
          act={() => each(chosen, ({ id }) => client.deployLatest({ deployment_id: id }))}
          done={`Deploying the latest commit of ${manyText(chosen)}.`}
          renews={["deployments"]}
        />
      )}
      <ActionButton
        text="Restart"
        confirm={`Restarts the replicas of ${manyText(chosen)}, with the code and the variables that they run now.`}
        act={() => each(chosen, ({ id }) => client.restartDeployment({ deployment_id: id }))}
        done={`Restarting ${manyText(chosen)}.`}
        renews={["deployments"]}
      />
      <button type="button" className="danger" onClick={() => setAsking(true)}>
        Delete …
      </button>
      {isAsking && (
        <ConfirmByName
          title={`Delete ${chosen.length} deployments`}
          name={`delete ${chosen.length}`}
          action="Delete deployments"
          isBusy={remove.isPending}
          onConfirm={() => remove.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>This cannot be undone. It also deletes their replicas, revisions, logs, databases and secrets:</p>
          <ul className="names">
            {chosen.map(({ id, name }) => (
              <li key={id}>{name}</li>
            ))}
          </ul>
        </ConfirmByName>
      )}
    </section>
  );
}

const manyText = ({ length }: Deployment[]) => `${length} ${length === 1 ? "deployment" : "deployments"}`;

/** Acts on every deployment. @throws Error that names those that failed. The others are done. */
async function each(chosen: Deployment[], act: (deployment: Deployment) => Promise<unknown>): Promise<void> {
  const results = await Promise.allSettled(chosen.map(act));
  const failed = results.flatMap((result, index) =>
    result.status === "rejected" ? [`${chosen[index]?.name}: ${textOf(result.reason)}`] : [],
  );
  if (failed.length > 0) throw new Error(`${failed.length} of ${manyText(chosen)} failed. ${failed[0]}`);
}
