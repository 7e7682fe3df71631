import type { PatchDeployment } from "../contract/deployments/deployment.ts";
import type { RevisionReason } from "../contract/revisions/revision.ts";
import { isGiven, sentConfigPath } from "./merge.ts";

/** Returns why a revision exists that a PATCH or POST .../revisions creates: new code counts before variables and sizes. */
export function reasonOfChange(sent: PatchDeployment): RevisionReason {
  const code = sent.source_revision_config ?? {};
  const config = sent.source_config ?? {};
  const isCode = [
    sent.revision_source,
    code.repo_ref,
    code.image_uri,
    code.source_tarball_path,
    sentConfigPath(code),
    config.repo_url,
    config.install_command,
    config.build_command,
    config.engine,
  ].some(isGiven);
  if (isCode) return "deploy";
  if ((sent.secrets ?? []).length > 0 || isGiven(sent.secret_references)) return "variables";
  return isGiven(config.resource_spec) || isGiven(sent.deployment_tier) ? "size" : "deploy";
}
