import { CallRefused, type ListenerSession } from "../../client/listener-client.ts";
import { type Clock, jitteredBackoffMs, sleep } from "../clock.ts";

/** A crashed replica starts again without asking; a fleet that restarts asks anyway. 256 sets of 4 KiB are 1 MiB. */
const setsMax = 256;

/** Values leave the memory of this process once nothing was started with them for this long. */
const cacheMs = 600_000;

const retryBounds = { firstMs: 500, maxMs: 30_000 };

/** Secret sets as they are needed for a start. They never leave this process's memory and are never logged. */
export class Secrets {
  readonly #session: () => ListenerSession | null;
  readonly #clock: Clock;
  readonly #cache = new Map<string, { values: Record<string, string>; atMs: number }>();

  constructor(options: { session: () => ListenerSession | null; clock: Clock }) {
    this.#session = options.session;
    this.#clock = options.clock;
  }

  /**
   * Waits as long as the control plane cannot be reached; that is no failure of the revision.
   * @throws CallRefused when it answers that there is no such set; the reason of `signal`.
   */
  async read(deploymentId: string, secretSetId: string | null, signal: AbortSignal): Promise<Record<string, string>> {
    if (secretSetId === null) return {};
    for (let attempt = 1; ; attempt++) {
      this.#evict();
      const cached = this.#cache.get(secretSetId);
      if (cached !== undefined) return this.#save(secretSetId, cached.values);
      const values = await this.#fetch(deploymentId, secretSetId, signal);
      if (values !== null) return this.#save(secretSetId, values);
      await sleep(this.#clock, jitteredBackoffMs(this.#clock, attempt, retryBounds), signal);
    }
  }

  clear(): void {
    this.#cache.clear();
  }

  /** @returns null when nobody can be asked right now. */
  async #fetch(deploymentId: string, secretSetId: string, signal: AbortSignal): Promise<Record<string, string> | null> {
    try {
      return (await this.#session()?.secrets(deploymentId, secretSetId, signal)) ?? null;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof CallRefused && error.status === 404) throw error;
      return null;
    }
  }

  #save(secretSetId: string, values: Record<string, string>): Record<string, string> {
    // Last in the map is used last.
    this.#cache.delete(secretSetId);
    this.#cache.set(secretSetId, { values, atMs: this.#clock.monotonicMs() });
    return values;
  }

  #evict(): void {
    for (const [secretSetId, { atMs }] of this.#cache) {
      if (this.#cache.size <= setsMax && this.#clock.monotonicMs() - atMs < cacheMs) return;
      this.#cache.delete(secretSetId);
    }
  }
}

/**
 * The environment of a replica. What the control plane injects wins over the deployment's own values (contract 7.2);
 * PORT is the driver's to choose and PATH belongs to the place where it runs.
 */
export function replicaEnvironment(
  secrets: Record<string, string>,
  env: Record<string, string>,
): Record<string, string> {
  const { PORT: _port, PATH: _path, ...values } = secrets;
  return { ...values, ...env };
}
