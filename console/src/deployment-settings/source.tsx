import { useState } from "react";
import type { PatchDeployment } from "../../../src/contract/deployments/deployment.ts";
import { checkConfigPath } from "../../../src/domain/config-path.ts";
import { checkRepoUrl } from "../../../src/domain/git-url.ts";
import { TextField } from "../parts/fields.tsx";
import { FormCard } from "../parts/form-card.tsx";
import type { Deployment } from "../parts/words.ts";
import { problemFrom } from "../server.ts";
import { useSave } from "./use-save.ts";

/** Where the code of a deployment comes from. A field shows the current value until the user types in it. */
export function Source({ deployment }: { deployment: Deployment }) {
  const [typed, setTyped] = useState<{ repository?: string; config?: string; onPush?: boolean }>({});
  const { repo_url: usedUrl, build_on_push: usedPush } = deployment.source_config;
  const usedConfig = deployment.source_revision_config.langgraph_config_path ?? "";
  const repository = typed.repository ?? usedUrl ?? "";
  const config = typed.config ?? usedConfig;
  const onPush = typed.onPush ?? usedPush ?? false;
  const source = {
    ...(repository.trim() !== usedUrl && { repo_url: repository.trim() }),
    ...(onPush !== (usedPush ?? false) && { build_on_push: onPush }),
  };
  const isOtherCode = config.trim() !== usedConfig || source.repo_url !== undefined;
  const body: PatchDeployment = {
    ...(Object.keys(source).length > 0 && { source_config: source }),
    ...(isOtherCode && { source_revision_config: { langgraph_config_path: config.trim() } }),
  };
  const problems = {
    repository: problemFrom(() => checkRepoUrl(repository.trim(), { allowLocalSources: true })),
    config: problemFrom(() => checkConfigPath(config.trim())),
  };
  const save = useSave(deployment, body, () => setTyped({}));
  return (
    <FormCard
      title="Source"
      isReady={Object.keys(body).length > 0 && !Object.values(problems).some(Boolean)}
      isSaving={save.isPending}
      submit={isOtherCode ? "Save and deploy" : "Save"}
      onSave={() => save.mutate()}
      call={{ id: "patchDeployment", input: { deployment_id: deployment.id, body } }}
    >
      <TextField
        label="Repository"
        value={repository}
        onValue={(text) => setTyped({ ...typed, repository: text })}
        problem={problems.repository}
        hint="Another repository is read before anything changes, and deployed."
      />
      <TextField
        label="Config file"
        value={config}
        onValue={(text) => setTyped({ ...typed, config: text })}
        problem={problems.config}
        hint="Relative to the root of the repository. Another file is deployed with the newest commit."
      />
      <label className="row">
        <input
          type="checkbox"
          checked={onPush}
          onChange={(event) => setTyped({ ...typed, onPush: event.target.checked })}
        />
        Deploy every push
      </label>
    </FormCard>
  );
}
