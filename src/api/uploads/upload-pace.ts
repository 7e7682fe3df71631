import { setTimeout as sleep } from "node:timers/promises";

/**
 * Bytes per second that a server receives of the uploads of one workspace, all together. Far above most lines, and low enough that
 * hashing and writing them leaves the event loop to others.
 */
const bytesPerS = 16 * 1024 * 1024;

/** Bytes that an idle workspace may send at any speed. Most projects are smaller. */
const burstBytes = 16 * 1024 * 1024;

/** Slows the uploads of a workspace down to `bytesPerS`. The sender waits, because its connection is not read meanwhile. */
export class UploadPace {
  /** When the bytes that each workspace has sent would have arrived at that pace, in milliseconds of `performance.now()`. */
  readonly #dueMs = new Map<string, number>();

  /** Counts bytes that arrived. Waits while the workspace is ahead of its pace, at most until the sender disconnects. */
  async wait(tenantId: string, bytes: number, signal: AbortSignal): Promise<void> {
    const nowMs = performance.now();
    const dueMs = Math.max(this.#dueMs.get(tenantId) ?? 0, nowMs) + (bytes / bytesPerS) * 1_000;
    this.#dueMs.set(tenantId, dueMs);
    const aheadMs = dueMs - nowMs - (burstBytes / bytesPerS) * 1_000;
    if (aheadMs > 0) await sleep(aheadMs, undefined, { signal, ref: false }).catch(() => {});
  }

  /** Forgets workspaces that are not ahead of their pace. Call it regularly. */
  forgetIdle(): void {
    const nowMs = performance.now();
    for (const [tenantId, dueMs] of this.#dueMs) if (dueMs <= nowMs) this.#dueMs.delete(tenantId);
  }
}
