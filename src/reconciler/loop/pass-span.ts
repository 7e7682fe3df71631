import type { RevisionStatus } from "../../contract/revisions/revision.ts";
import { holdsSlot } from "../../domain/revision-status.ts";
import { activeSpan, inSpan, parseTraceparent, type Traces } from "../../telemetry/traces.ts";
import type { Outcome } from "../plan/outcome.ts";
import type { Step } from "../plan/plan.ts";
import type { DeploymentState } from "../plan/state.ts";
import type { Performed } from "../steps/perform.ts";

/** A pass belongs to the trace of the revision in progress, else of the newest that waits; without one it has no span. */
export function inPass(
  traces: Traces | null,
  { id, tenantId, unsettled }: DeploymentState,
  act: () => Promise<Outcome>,
): Promise<Outcome> {
  const revision = unsettled.find(({ status }) => holdsSlot(status)) ?? unsettled.at(-1);
  if (traces === null || revision === undefined || revision.traceparent === null) return act();
  const ids = { deployment_id: id, revision_id: revision.id, workspace_id: tenantId };
  return inSpan(traces.begin("reconcile.pass", revision.traceparent, ids), async (span) => {
    const outcome = await act();
    span.set({ outcome: outcome.kind, because: ownWordsOf(outcome.because) });
    return outcome;
  });
}

/** One step of a pass; one that is for another revision than the pass belongs to that one's trace. */
export function inStep(
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
    if (performed.kind === "later") span.set({ because: ownWordsOf(performed.because) });
    return performed;
  });
}

/** What stands behind a colon is what another program said, such as a database server: it may name anything. */
const ownWordsOf = (because: string) => because.split(":", 1)[0];

/** Says in the step's span where it moved its revision; a failure is marked with its cause. */
export function noteMove({ from, to, because }: { from: RevisionStatus; to: RevisionStatus; because: string }): void {
  const span = activeSpan();
  span?.set({ from, to, because });
  if (to.endsWith("FAILED")) span?.fail(because);
}
