import type { Socket } from "node:net";
import { type Compute, ExecRefused, type ExecRequest, type ExecSession, offersExec } from "./compute.ts";

const observeTimeoutMs = 10_000;

/** A replica beside which a program can run. */
export interface FoundReplica {
  replicaId: string;
  /** @throws ExecRefused */
  start(request: ExecRequest): Promise<ExecSession>;
}

/** An agent to which a connection can lead. */
export interface AgentConnection {
  /** Joins it with a connection of a caller. */
  join(socket: Socket): void;
  /** Gives it up when no caller comes. */
  close(): void;
}

/**
 * Finds a replica of a deployment beside which a program can run.
 * @param wanted id of the replica; null: the newest ready one, or one that starts when none is ready
 * @throws ExecRefused when none runs here, or this compute cannot do it
 */
export async function findReplica(
  compute: Compute,
  deploymentId: string,
  wanted: string | null,
): Promise<FoundReplica> {
  if (!offersExec(compute)) throw new ExecRefused(`Agents on ${compute.type} compute have no program to run beside.`);
  const all = await compute.observe(AbortSignal.timeout(observeTimeoutMs));
  const running = all.filter((one) => one.deploymentId === deploymentId && one.phase !== "exited");
  const newest = running.toSorted((a, b) => b.startedAt.getTime() - a.startedAt.getTime());
  const chosen =
    wanted === null
      ? (newest.find(({ phase }) => phase === "ready") ?? newest.find(({ phase }) => phase === "starting"))
      : newest.find(({ replicaId }) => replicaId === wanted);
  if (chosen === undefined) throw new ExecRefused(missing(wanted, deploymentId));
  const { replicaId } = chosen;
  return { replicaId, start: (request) => compute.openExec(replicaId, request) };
}

/** Says that no replica was found. */
export const missing = (wanted: string | null, deploymentId: string) =>
  wanted === null
    ? "No replica of this deployment runs. A deployment that sleeps wakes with its next request."
    : `The replica ${wanted} does not run. List the replicas: pierhead ps ${deploymentId}`;
