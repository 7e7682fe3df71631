import type { RuleContext } from "../../domain/settings.ts";
import type { ApiSettings } from "../deps.ts";

/** Returns the context of the rules in `domain/`: settings of this server, and what was found for the request. */
export function ruleContext(
  settings: ApiSettings,
  found: Partial<Pick<RuleContext, "listeners" | "podRights" | "uploadedPaths" | "templateIds">>,
): RuleContext {
  const { mode, allowLocalSources, hasBuiltinDataPlane, publicUrl } = settings;
  const ownHost = publicUrl === null ? null : new URL(publicUrl).hostname;
  const nothing = { listeners: [], podRights: [], uploadedPaths: [], templateIds: [] };
  return { mode, ownHost, allowLocalSources, hasBuiltinDataPlane, ...nothing, ...found };
}
