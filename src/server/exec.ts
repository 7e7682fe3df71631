import type { FoundExec } from "../api/deps.ts";
import { type Compute, ExecRefused, type ExecRequest, type ExecSession, offersExec } from "../compute/compute.ts";
import { errors } from "../contract/error.ts";

const observeTimeoutMs = 10_000;

/** The programs beside agents on the compute of this server. */
export class Execs {
  /** Null: this server runs no agents, or has not started its compute yet. */
  compute: Compute | null = null;
  readonly #open = new Set<ExecSession>();
  #isClosed = false;

  /**
   * Finds a replica of a deployment beside which a program can run.
   * @param wanted id of the replica; null: the newest ready one, or one that starts when none is ready
   * @throws ApiError `execUnavailable`
   */
  async find(deploymentId: string, wanted: string | null): Promise<FoundExec> {
    const { compute } = this;
    if (compute === null || !offersExec(compute)) {
      const because =
        compute === null
          ? "This server runs no agents itself, so it cannot run a program beside one. Ask the server of the agent's machine."
          : `Agents on ${compute.type} compute have no program to run beside.`;
      throw errors.execUnavailable(because);
    }
    const replicaId = await chooseReplica(compute, deploymentId, wanted);
    const start = async (request: ExecRequest) => {
      if (this.#isClosed) throw errors.unavailable("This server stops.", 5);
      const session = await compute.openExec(replicaId, request).catch((error: unknown) => {
        throw error instanceof ExecRefused ? errors.execUnavailable(error.message) : error;
      });
      this.#open.add(session);
      session.ended.catch(() => {}).finally(() => this.#open.delete(session));
      if (this.#isClosed) await session.kill();
      return session;
    };
    return { replicaId, start };
  }

  /** Ends all programs. They must not outlive the server, which would not find them again. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled([...this.#open].map((session) => session.kill()));
  }
}

async function chooseReplica(compute: Compute, deploymentId: string, wanted: string | null): Promise<string> {
  const all = await compute.observe(AbortSignal.timeout(observeTimeoutMs));
  const running = all.filter((one) => one.deploymentId === deploymentId && one.phase !== "exited");
  const newest = running.toSorted((a, b) => b.startedAt.getTime() - a.startedAt.getTime());
  const chosen =
    wanted === null
      ? (newest.find(({ phase }) => phase === "ready") ?? newest.find(({ phase }) => phase === "starting"))
      : newest.find(({ replicaId }) => replicaId === wanted);
  if (chosen !== undefined) return chosen.replicaId;
  const because =
    wanted === null
      ? "No replica of this deployment runs on this server. A deployment that sleeps wakes with its next request."
      : `The replica ${wanted} does not run on this server. List the replicas: pierhead ps NAME`;
  throw errors.execUnavailable(because);
}
