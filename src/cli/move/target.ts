import { setTimeout as sleep } from "node:timers/promises";
import { isSettled, WaitTimeout } from "../../client/client.ts";
import type { CreateDeployment, Deployment } from "../../contract/deployments/deployment.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Session } from "../session.ts";
import type { Steps } from "../terminal/steps.ts";
import { harmless } from "../terminal/terminal.ts";
import { commandFor, contextOption, type Sides } from "./sides.ts";

type There = Sides & { target: Deployment };

interface Wait {
  timeoutMs: number;
  steps: Steps;
}

export async function createTarget({ to }: Sides, body: CreateDeployment): Promise<Deployment> {
  const client = await to.client();
  return client.createDeployment({ body }, { signal: to.signal });
}

/** Waits until the new deployment serves. Tries a failed revision again. @returns the deployment as it is then */
export async function waitForTarget(sides: There, wait: Wait): Promise<Deployment> {
  const { to, target } = sides;
  const client = await to.client();
  const ids = { deployment_id: target.id };
  const now = await client.getDeployment(ids, { signal: to.signal });
  const newest = await newestOf(to, now);
  const hasFailed = newest !== null && isSettled(newest.status) && newest.status !== "DEPLOYED";
  const begun = hasFailed ? await client.retryDeployment(ids, { signal: to.signal }) : now;
  await waitForNewest(sides, begun, wait);
  return client.getDeployment(ids, { signal: to.signal });
}

/** Starts new replicas on the copied database, so that none keeps what it read before. */
export async function restartTarget(sides: There, wait: Wait): Promise<void> {
  const { to, target } = sides;
  const client = await to.client();
  const restarted = await client.restartDeployment({ deployment_id: target.id }, { signal: to.signal });
  await waitForNewest(sides, restarted, wait);
}

/** Replicas that ended while their database was read-only may be reported a moment longer. */
const healthTimeoutMs = 30_000;

/** Checks what `pierhead status --check` does. @throws CliFailure */
export async function checkTarget(sides: There): Promise<Deployment> {
  const { to, target, options } = sides;
  const client = await to.client();
  const end = performance.now() + healthTimeoutMs;
  for (;;) {
    const now = await client.getDeployment({ deployment_id: target.id }, { signal: to.signal });
    if (now.health.status === "live" || now.health.status === "sleeping") return now;
    if (performance.now() > end) {
      throw new CliFailure(`${now.name} is ${now.health.status.replace("_", "-")}.`, {
        because: now.health.message,
        hints: [`See why: pierhead why ${now.name}${contextOption(options)}`, `Try again: ${commandFor(sides)}`],
      });
    }
    await sleep(500, undefined, { signal: to.signal });
  }
}

/** Lets the new deployment follow the branch and the pushes of the old one. It was created with the commit that served. */
export async function trackBranch({
  to,
  source,
  target,
}: {
  to: Session;
  source: Deployment;
  target: Deployment;
}): Promise<void> {
  if (source.source !== "github") return;
  const { repo_branch: branch, build_on_push } = source.source_config;
  const isTracked = branch === null || branch === target.source_config.repo_branch;
  if (isTracked && build_on_push === target.source_config.build_on_push) return;
  const client = await to.client();
  const body = {
    ...(branch !== null && { tracked_repo_ref: branch }),
    source_config: { build_on_push },
  };
  await client.patchDeployment({ deployment_id: target.id, body }, { signal: to.signal });
}

async function newestOf(to: Session, { id, latest_revision_id: latest }: Deployment): Promise<Revision | null> {
  if (latest === null) return null;
  const client = await to.client();
  return client.getRevision({ deployment_id: id, revision_id: latest }, { signal: to.signal });
}

async function waitForNewest(sides: There, target: Deployment, { timeoutMs, steps }: Wait): Promise<void> {
  const { to, options } = sides;
  const client = await to.client();
  const { id, name, latest_revision_id: latest } = target;
  if (latest === null) throw new CliFailure(`${name} has no revision.`);
  const ids = { deployment_id: id, revision_id: latest };
  const onChange = ({ status, status_message: message }: Revision) =>
    steps.note(harmless(message ?? status.toLowerCase().replaceAll("_", " ")).split("\n")[0] ?? "");
  const again = `Go on: ${commandFor(sides)}`;
  const back = `Go back: ${commandFor(sides, "--back")}`;
  const revision = await client
    .waitForRevision(ids, { timeoutMs, signal: to.signal, onChange })
    .catch((error: unknown) => {
      if (!(error instanceof WaitTimeout)) throw error;
      throw new CliFailure(error.message, { exitCode: exitCodes.pending, isNotice: true, hints: [again, back] });
    });
  if (revision.status === "DEPLOYED") return;
  throw new CliFailure(`The deploy of ${name} ended in ${revision.status}.`, {
    because: revision.status_message,
    hints: [`See why: pierhead why ${name}${contextOption(options)}`, `Fix it, then go on: ${commandFor(sides)}`, back],
  });
}
