import type { StartedExec } from "../api/deps.ts";
import { type Compute, ExecRefused, type ExecRequest, offersExec } from "../compute/compute.ts";
import { errors } from "../contract/error.ts";

const observeTimeoutMs = 10_000;

/**
 * Runs a program beside a replica of a deployment, on the compute of this server.
 * @param wanted id of the replica; null: the newest ready one, or one that starts when none is ready
 * @throws ApiError `execUnavailable`
 */
export async function execOnMachine(
  compute: Compute | null,
  deploymentId: string,
  wanted: string | null,
  request: ExecRequest,
): Promise<StartedExec> {
  if (compute === null || !offersExec(compute)) {
    const because =
      compute === null
        ? "This server runs no agents itself, so it cannot run a program beside one. Ask the server of the agent's machine."
        : `Agents on ${compute.type} compute have no program to run beside.`;
    throw errors.execUnavailable(because);
  }
  const all = await compute.observe(AbortSignal.timeout(observeTimeoutMs));
  const running = all.filter((one) => one.deploymentId === deploymentId && one.phase !== "exited");
  const newest = running.toSorted((a, b) => b.startedAt.getTime() - a.startedAt.getTime());
  const chosen =
    wanted === null
      ? (newest.find(({ phase }) => phase === "ready") ?? newest.find(({ phase }) => phase === "starting"))
      : newest.find(({ replicaId }) => replicaId === wanted);
  if (chosen === undefined) {
    const because =
      wanted === null
        ? "No replica of this deployment runs on this server. A deployment that sleeps wakes with its next request."
        : `The replica ${wanted} does not run on this server. List the replicas: pierhead ps NAME`;
    throw errors.execUnavailable(because);
  }
  try {
    return { replicaId: chosen.replicaId, session: await compute.openExec(chosen.replicaId, request) };
  } catch (error) {
    throw error instanceof ExecRefused ? errors.execUnavailable(error.message) : error;
  }
}
