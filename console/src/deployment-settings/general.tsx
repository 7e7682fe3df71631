import { useState } from "react";
import type { DeploymentTier, PatchDeployment } from "../../../src/contract/deployments/deployment.ts";
import { SelectField, TextField } from "../parts/fields.tsx";
import { FormCard } from "../parts/form-card.tsx";
import type { Deployment } from "../parts/words.ts";
import { useSave } from "./use-save.ts";

const tiers: { value: DeploymentTier | ""; text: string }[] = [
  { value: "", text: "Default of the type" },
  { value: "SERVERLESS_S", text: "Serverless, small" },
  { value: "SERVERLESS_M", text: "Serverless, medium" },
  { value: "SERVERLESS_L", text: "Serverless, large" },
  { value: "DEDICATED_S", text: "Dedicated, small" },
  { value: "DEDICATED_M", text: "Dedicated, medium" },
  { value: "DEDICATED_L", text: "Dedicated, large" },
];

/** A field shows the current value until the user types in it, so it neither hides nor undoes the changes of other users. */
export function General({ deployment }: { deployment: Deployment }) {
  const [typed, setTyped] = useState<{ name?: string; branch?: string; tier?: DeploymentTier | "" }>({});
  const name = typed.name ?? deployment.display_name ?? "";
  const branch = typed.branch ?? deployment.source_config.repo_branch ?? "";
  const tier = typed.tier ?? deployment.deployment_tier ?? "";
  const body: PatchDeployment = {
    ...(name.trim() !== "" && name !== deployment.display_name && { display_name: name.trim() }),
    ...(branch.trim() !== "" && branch !== deployment.source_config.repo_branch && { tracked_repo_ref: branch.trim() }),
    ...(tier !== "" && tier !== deployment.deployment_tier && { deployment_tier: tier }),
  };
  const save = useSave(deployment, body, () => setTyped({}));
  return (
    <FormCard
      title="General"
      isReady={Object.keys(body).length > 0}
      isSaving={save.isPending}
      onSave={() => save.mutate()}
      call={{ id: "patchDeployment", input: { deployment_id: deployment.id, body } }}
    >
      <TextField
        label="Display name"
        placeholder={deployment.name}
        value={name}
        onValue={(text) => setTyped({ ...typed, name: text })}
        hint={`The name in the API stays ${deployment.name}.`}
      />
      {deployment.source === "github" && (
        <TextField
          label="Tracked branch"
          value={branch}
          onValue={(text) => setTyped({ ...typed, branch: text })}
          hint="The branch that the deployment follows. Saving creates no revision."
        />
      )}
      {deployment.deployment_tier !== null && (
        <SelectField
          label="Size"
          value={tier}
          onValue={(chosen) => setTyped({ ...typed, tier: chosen })}
          hint="A new size creates a revision from the same source."
          options={tiers}
        />
      )}
    </FormCard>
  );
}
