import type { RuleContext } from "../../domain/settings.ts";
import type { ApiSettings } from "../deps.ts";

/** What the rules of `domain/` ask for, beside what depends on the request. */
export function ruleContext(
  settings: ApiSettings,
  found: Partial<Pick<RuleContext, "listeners" | "uploadedPaths" | "templateIds">>,
): RuleContext {
  const { mode, allowLocalSources, hasBuiltinDataPlane } = settings;
  return { mode, allowLocalSources, hasBuiltinDataPlane, listeners: [], uploadedPaths: [], templateIds: [], ...found };
}
