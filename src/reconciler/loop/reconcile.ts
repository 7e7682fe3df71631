import type { ReconcilerDeps } from "../deps.ts";
import type { Outcome } from "../plan/outcome.ts";
import { planDeployment } from "../plan/plan.ts";
import { readState } from "../plan/read-state.ts";
import { perform } from "../steps/perform.ts";
import { inPass } from "./pass-span.ts";

/**
 * Steps one pass takes before it lets others have a turn. The longest straight run, from CREATING to DEPLOYING of a
 * prepared artifact, is five (provision, resolve, queue, deploy, wait); a pass that ends early is simply run again.
 */
const stepsMax = 8;

type Read = NonNullable<Awaited<ReturnType<typeof readState>>>;

/**
 * One level-triggered pass over one deployment: read everything, plan one step, do it, look again, until there is
 * nothing to do now. It is told which deployment, never what happened to it; calling it twice is always safe.
 */
export async function reconcileDeployment(
  deps: ReconcilerDeps,
  deploymentId: string,
  signal: AbortSignal,
): Promise<Outcome> {
  const read = await readState(deps.db, deploymentId);
  if (read === undefined) return gone;
  return inPass(deps.traces, read.state, () => takeSteps(deps, read, signal));
}

const gone: Outcome = { kind: "converged", because: "the deployment is gone", isGone: true };

async function takeSteps(deps: ReconcilerDeps, first: Read, signal: AbortSignal): Promise<Outcome> {
  let last = "nothing to do";
  let read: Read | undefined = first;
  for (let count = 0; count < stepsMax; count++) {
    if (read === undefined) return gone;
    const step = planDeployment(read.state, read.now);
    if (step.kind === "none") return { kind: "converged", because: last };
    if (step.kind === "wait") return { kind: "waiting", retryAt: step.until, because: step.because };
    const performed = await perform(deps, read.state, step, signal);
    if (performed.kind === "later") {
      return {
        kind: "waiting",
        retryAt: new Date(read.now.getTime() + performed.retryInMs),
        because: performed.because,
      };
    }
    last = step.kind;
    read = performed.state ? { ...read, state: performed.state } : await readState(deps.db, read.state.id);
  }
  return { kind: "waiting", retryAt: new Date(0), because: "took its turn" };
}
