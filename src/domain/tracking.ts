import type { SourceConfig } from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import { isTag } from "./refs.ts";

/**
 * Refuses build_on_push for a tag, because tags do not move (contract 4.3). It checks the merged pair, so changing only one
 * of the two can fail.
 *
 * @throws ApiError 400 `buildOnPushOfTag`.
 */
export function checkTracking(config: SourceConfig, trackedRef: string | null): void {
  if (config.build_on_push === true && trackedRef !== null && isTag(trackedRef)) throw errors.buildOnPushOfTag();
}
