import type { FoundExec } from "../api/deps.ts";
import { findReplica } from "../compute/choose-replica.ts";
import { type Compute, ExecRefused, type ExecRequest, type ExecSession } from "../compute/compute.ts";
import { errors } from "../contract/error.ts";

/** Programs that run beside agents on the compute of this server (`pierhead exec`). */
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
    if (compute === null)
      throw errors.execUnavailable(
        "This server runs no agents itself, so it cannot run a program beside one. Ask the server of the agent's machine.",
      );
    const { replicaId, start } = await findReplica(compute, deploymentId, wanted).catch(refuse);
    return { replicaId, start: (request) => this.#start(start, request) };
  }

  async #start(start: (request: ExecRequest) => Promise<ExecSession>, request: ExecRequest): Promise<ExecSession> {
    if (this.#isClosed) throw errors.unavailable("This server stops.", 5);
    const session = await start(request).catch(refuse);
    this.#open.add(session);
    session.ended.catch(() => {}).finally(() => this.#open.delete(session));
    if (this.#isClosed) await session.kill();
    return session;
  }

  /** Ends all programs. They must not outlive the server, which would not find them again. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled([...this.#open].map((session) => session.kill()));
  }
}

function refuse(error: unknown): never {
  throw error instanceof ExecRefused ? errors.execUnavailable(error.message) : error;
}
