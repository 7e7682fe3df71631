import type { PatchDeployment } from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import { isGiven } from "./merge.ts";
import type { CurrentDeployment } from "./settings.ts";
import { shownDeploymentType } from "./sizes.ts";

/**
 * Checks the fields that are fixed at creation (contract 4.2). Clients that read, change and write back send these fields
 * too: the value that responses show is accepted, another one is refused.
 *
 * @throws ApiError 400 `fieldImmutable`.
 */
export function checkImmutables(current: CurrentDeployment, patch: PatchDeployment): void {
  const sent = patch.source_config ?? {};
  const is = current.sourceConfig;
  const pairs: [field: string, sent: unknown, shown: unknown][] = [
    ["name", patch.name, current.name],
    ["source", patch.source, current.source],
    ["source_config.integration_id", sent.integration_id, is.integration_id],
    ["source_config.deployment_type", sent.deployment_type, shownDeploymentType(is.deployment_type)],
    ["source_config.listener_id", sent.listener_id, is.listener_id],
    [
      "source_config.listener_config.k8s_namespace",
      sent.listener_config?.k8s_namespace,
      is.listener_config?.k8s_namespace ?? null,
    ],
    ["source_config.template_id", sent.template_id, is.template_id],
  ];
  if (isGiven(sent.listener_selector)) throw errors.fieldImmutable("source_config.listener_selector");
  for (const [field, value, shown] of pairs) {
    if (isGiven(value) && value !== shown) throw errors.fieldImmutable(field);
  }
}
