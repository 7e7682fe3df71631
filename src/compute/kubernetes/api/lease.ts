import { setTimeout as sleep } from "node:timers/promises";
import { describeError, type Logger } from "../../../telemetry/log.ts";
import { type ApiServer, KubeError } from "./api-server.ts";
import { pathOf } from "./kinds.ts";
import type { Manifest } from "./manifest.ts";

export interface LeaseTimes {
  durationMs: number;
  renewMs: number;
  retryMs: number;
}

/** A lease is renewed three times before it expires. A frozen leader is replaced after 15 s. */
export const leaseTimes: LeaseTimes = { durationMs: 15_000, renewMs: 5_000, retryMs: 2_000 };

interface Lease extends Manifest {
  metadata: Manifest["metadata"] & { uid?: string };
  spec: { holderIdentity?: string; renewTime?: string; leaseTransitions?: number };
}

/**
 * Elects one leader among the replicas of a listener. The expiry of another holder's lease is judged by the time since we
 * last saw it change, so clocks are never compared. Our own lease counts as lost before others may take it.
 */
export class Elector {
  readonly #api: ApiServer;
  readonly #key: { namespace: string; name: string; holder: string };
  readonly #times: LeaseTimes;
  readonly #logger: Logger;
  #seen = { text: "", atMs: 0 };
  #uid = "";

  constructor(
    api: ApiServer,
    key: { namespace: string; name: string; holder: string },
    { logger, times = leaseTimes }: { logger: Logger; times?: LeaseTimes },
  ) {
    this.#api = api;
    this.#key = key;
    this.#times = times;
    this.#logger = logger;
  }

  /** Uid of the lease that was acquired last. It is unique, while a lease in another cluster may have the same name. */
  get uid(): string {
    return this.#uid;
  }

  /**
   * Leads whenever it holds the lease, until `signal` aborts. `lead` gets a signal that aborts with the lease, and must have
   * stopped acting when it settles.
   */
  async run(lead: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (await this.#acquire(signal)) await this.#leadOnce(lead, signal);
      else await pause(this.#times.retryMs, signal);
    }
  }

  async #leadOnce(lead: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    this.#logger.info({ lease: this.#key.name }, "this instance leads");
    const lost = new AbortController();
    let hasGivenUp = false;
    const leading = lead(AbortSignal.any([signal, lost.signal])).then(() => {
      hasGivenUp = true;
    });
    let renewedAtMs = performance.now();
    while (!signal.aborted) {
      await pause(this.#times.renewMs, signal);
      if (signal.aborted || hasGivenUp) break;
      const beganAtMs = performance.now();
      const isHeld = await this.#acquire(signal);
      if (isHeld) renewedAtMs = beganAtMs;
      // Two thirds: a candidate that waits for the whole duration must find us inactive.
      if (!isHeld && performance.now() - renewedAtMs > (this.#times.durationMs * 2) / 3) break;
      if (!isHeld && this.#seen.text !== "" && !this.#seen.text.startsWith(`${this.#key.holder} `)) break;
    }
    if (!hasGivenUp) lost.abort(new Error("the lease was lost"));
    await leading;
    if (signal.aborted || !lost.signal.aborted) await this.#release();
    else this.#logger.warn({ lease: this.#key.name }, "this instance no longer leads");
  }

  /** Acquires or renews the lease. @returns whether we hold it; false also when there is no answer */
  async #acquire(signal: AbortSignal): Promise<boolean> {
    const { namespace, name, holder } = this.#key;
    const timeout = AbortSignal.any([signal, AbortSignal.timeout(this.#times.renewMs)]);
    try {
      const there = await this.#api.get<Lease>("Lease", namespace, name, timeout);
      const owner = there?.spec.holderIdentity ?? "";
      const text = `${owner} ${there?.spec.renewTime}`;
      if (text !== this.#seen.text) this.#seen = { text, atMs: performance.now() };
      const isFree = owner === "" || performance.now() - this.#seen.atMs > this.#times.durationMs;
      if (owner !== holder && !isFree) return false;
      await this.#write(there, holder, timeout);
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      const isRace = error instanceof KubeError && (error.status === 409 || error.reason === "AlreadyExists");
      if (!isRace)
        this.#logger.warn({ lease: name, error: describeError(error) }, "acquiring or renewing the lease failed");
      return false;
    }
  }

  async #write(there: Lease | null, holder: string, signal: AbortSignal): Promise<void> {
    const { namespace, name } = this.#key;
    const now = new Date().toISOString().replace("Z", "000Z");
    const transitions = (there?.spec.leaseTransitions ?? 0) + (there?.spec.holderIdentity === holder ? 0 : 1);
    const spec = {
      holderIdentity: holder,
      leaseDurationSeconds: Math.ceil(this.#times.durationMs / 1_000),
      renewTime: now,
      acquireTime: now,
      leaseTransitions: transitions,
    };
    const metadata = {
      name,
      namespace,
      ...(there && { resourceVersion: there.metadata.resourceVersion as string }),
    };
    const body: Manifest = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
    const made = { method: "POST", path: pathOf("Lease", namespace), body, signal };
    const written = (there === null ? await this.#api.call(made) : await this.#api.replace(body, signal)) as Lease;
    this.#uid = written.metadata.uid ?? "";
    this.#seen = { text: `${holder} ${now}`, atMs: performance.now() };
  }

  /** Releases the lease, so that the next leader does not have to wait. */
  async #release(): Promise<void> {
    const { namespace, name, holder } = this.#key;
    const signal = AbortSignal.timeout(2_000);
    try {
      const there = await this.#api.get<Lease>("Lease", namespace, name, signal);
      if (there?.spec.holderIdentity === holder) await this.#write(there, "", signal);
    } catch {
      // The lease expires on its own.
    }
  }
}

const pause = (ms: number, signal: AbortSignal) => sleep(ms, undefined, { signal }).catch(() => {});
