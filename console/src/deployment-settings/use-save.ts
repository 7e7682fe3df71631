import { useMutation } from "@tanstack/react-query";
import type { Deployment, PatchDeployment } from "../../../src/contract/deployments/deployment.ts";
import { useToasts } from "../parts/toasts.tsx";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";

/** Returns a mutation that changes the deployment and shows the answer. */
export function useSave(deployment: Deployment, body: PatchDeployment, onSaved: () => void) {
  const { client } = useSession();
  const { notify, notifyError } = useToasts();
  return useMutation({
    mutationFn: () => client.patchDeployment({ deployment_id: deployment.id, body }),
    onError: notifyError,
    onSuccess: (changed) => {
      notify("Saved.");
      queries.setQueryData(["deployment", deployment.id], changed);
      onSaved();
    },
  });
}
