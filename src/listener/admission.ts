import type { Assignment, RevisionRun } from "../contract/listeners/assignment.ts";
import type { Admission } from "../gateway/route.ts";

/**
 * Returns which callers the environment of a revision admits (contract 7.2). Undefined: all. Agent servers read the same
 * variables.
 */
export function admissionOf(
  { env }: Pick<RevisionRun, "env">,
  { tenant_id: workspaceId }: Pick<Assignment, "tenant_id">,
): Admission | undefined {
  if (env["LANGGRAPH_AUTH_TYPE"] !== "langsmith") return undefined;
  return { workspaceId: env["LANGSMITH_AUTH_VERIFY_TENANT_ID"] === "False" ? null : workspaceId };
}
