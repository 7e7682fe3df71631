import type { SourceConfig } from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import { isTag } from "./refs.ts";

/**
 * A tag does not move, so pushes to it mean nothing (contract 4.3). Checked on the merged pair: changing only one of the
 * two can fail.
 *
 * @throws ApiError 400 `buildOnPushOfTag`.
 */
export function checkTracking(config: SourceConfig, trackedRef: string | null): void {
  if (config.build_on_push === true && trackedRef !== null && isTag(trackedRef)) throw errors.buildOnPushOfTag();
}
