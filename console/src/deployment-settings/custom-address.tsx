import { useState } from "react";
import type { PatchDeployment } from "../../../src/contract/deployments/deployment.ts";
import { checkCustomUrl } from "../../../src/domain/custom-url.ts";
import { TextField } from "../parts/fields.tsx";
import { FormCard } from "../parts/form-card.tsx";
import type { Deployment } from "../parts/words.ts";
import { problemFrom } from "../server.ts";
import { useSave } from "./use-save.ts";

/** A custom address, which only image deployments can have. The user has to route it to the deployment. */
export function CustomAddress({ deployment }: { deployment: Deployment }) {
  const [typed, setTyped] = useState<string>();
  const address = typed ?? deployment.url ?? "";
  const body: PatchDeployment = { source_config: { custom_url: address.trim() } };
  const save = useSave(deployment, body, () => setTyped(undefined));
  const isChanged = typed !== undefined && typed.trim() !== deployment.url;
  const problem = isChanged && address.trim() !== "" ? addressProblem(address.trim()) : null;
  return (
    <FormCard
      title="Custom address"
      isReady={isChanged && problem === null}
      isSaving={save.isPending}
      onSave={() => save.mutate()}
      call={{ id: "patchDeployment", input: { deployment_id: deployment.id, body } }}
    >
      <TextField
        label="Serving address"
        type="url"
        value={address}
        onValue={setTyped}
        problem={problem}
        hint="Clients use this address from now on. Configure your DNS and your proxy to route it to the deployment. Leave the field empty to restore the server's address. Saving creates no revision."
      />
    </FormCard>
  );
}

const addressProblem = (address: string) => problemFrom(() => checkCustomUrl(address));
