import type { RevisionStatus } from "../../contract/revisions/revision.ts";
import { activeSpan, inSpan, parseTraceparent, type Traces } from "../../telemetry/traces.ts";
import type { DeploymentState } from "../plan/state.ts";
import type { Step } from "../plan/step.ts";
import type { Performed } from "./performed.ts";

/** Runs one step in a span. A step for a revision other than the pass's own belongs to that revision's trace. */
export function inStepSpan(
  traces: Traces | null,
  { id, tenantId, unsettled }: DeploymentState,
  step: Step,
  act: () => Promise<Performed>,
): Promise<Performed> {
  const pass = activeSpan();
  const revisionId = "revisionId" in step ? step.revisionId : null;
  const own = unsettled.find((revision) => revision.id === revisionId)?.traceparent ?? null;
  if (traces === null || (pass === undefined && own === null)) return act();
  const attributes = { step: step.kind, deployment_id: id, revision_id: revisionId, workspace_id: tenantId };
  const isOfPass = own === null || parseTraceparent(own)?.traceId === pass?.traceId;
  const span =
    pass !== undefined && isOfPass
      ? pass.begin("reconcile.step", attributes)
      : traces.begin("reconcile.step", own, attributes);
  return inSpan(span, async () => {
    const performed = await act();
    if (performed.kind === "later") span.set({ because: withoutDetail(performed.because) });
    return performed;
  });
}

/** Cuts a reason at its first colon. The rest may quote another program, and spans must contain only Pierhead's own text. */
export const withoutDetail = (because: string) => because.split(":", 1)[0];

/** Records a move in the span of the step that made it. A move to a failed status marks the span as failed. */
export function recordMove({ from, to, because }: { from: RevisionStatus; to: RevisionStatus; because: string }): void {
  const span = activeSpan();
  span?.set({ from, to, because });
  if (to.endsWith("FAILED")) span?.fail(because);
}
