import { isRetryMessage } from "../../store/queue/describe-retries.ts";
import type { StepDeps } from "../deps.ts";
import type { Outcome } from "../plan/outcome.ts";
import { planDeployment, planHealth } from "../plan/plan.ts";
import { readState } from "../plan/read-state.ts";
import { perform } from "../steps/perform.ts";
import { inPassSpan } from "./pass-span.ts";

/**
 * Steps of one pass, after which other deployments get a turn. The longest straight run, from CREATING to DEPLOYING of a
 * prepared artifact, is five (provision, resolve, queue, deploy, wait). A pass that stops early is run again at once.
 */
const stepsMax = 8;

type Read = NonNullable<Awaited<ReturnType<typeof readState>>>;

/**
 * Runs one level-triggered pass over one deployment: reads everything, plans one step, performs it, and repeats until
 * there is nothing to do now. The caller passes only the deployment, never what happened to it, so a second pass is
 * always safe.
 */
export async function reconcileDeployment(deps: StepDeps, deploymentId: string, signal: AbortSignal): Promise<Outcome> {
  const read = await readState(deps.store, deploymentId);
  if (read === undefined) return gone;
  const outcome = await inPassSpan(deps.traces, read.state, () => takeSteps(deps, read, signal));
  return { ...outcome, wasRetried: read.state.unsettled.some(({ message }) => isRetryMessage(message)) };
}

const gone: Outcome = { kind: "converged", because: "the deployment is gone", isGone: true };

async function takeSteps(deps: StepDeps, first: Read, signal: AbortSignal): Promise<Outcome> {
  let last = "nothing to do";
  let read: Read | undefined = first;
  for (let count = 0; count < stepsMax; count++) {
    if (read === undefined) return gone;
    const step = planDeployment(read.state, read.now);
    if (step.kind === "none") return { kind: "converged", because: last };
    if (step.kind === "wait") return { kind: "waiting", retryAt: step.until, because: step.because };
    const performed = await perform(deps, read.state, step, signal);
    if (performed.kind === "later") {
      // The step may wait for long, for a build slot for example.
      const health = planHealth(read.state);
      if (health !== null) await perform(deps, read.state, health, signal);
      return {
        kind: "waiting",
        retryAt: new Date(read.now.getTime() + performed.retryInMs),
        because: performed.because,
        ...(performed.isProblem && { isProblem: true }),
      };
    }
    last = step.kind;
    read = performed.state ? { ...read, state: performed.state } : await readState(deps.store, read.state.id);
  }
  return { kind: "waiting", retryAt: new Date(0), because: "took its turn" };
}
