import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { ApiError } from "../../contract/error.ts";
import type { DesiredPage } from "../../contract/listeners/assignment.ts";

export interface AssignmentSource {
  /** Reads the next page. @throws ApiError 401 when the listener's key has expired or was revoked. */
  read(after: number): Promise<DesiredPage>;
  /** Settles when there may be more after this cursor, at the latest after `maxMs`. */
  wait(after: number, maxMs: number): { came: Promise<void>; cancel(): void };
  /** Renews the session. @throws ApiError 409 `staleEpoch`; 410 when the cursor no longer exists; 401 as in `read`. */
  renew(cursor: number): Promise<void>;
}

/** Interval of pings, well below the lease. Each ping renews the lease, so an open stream needs no heartbeat. */
const pingMs = 10_000;

/**
 * Returns a random delay of the first ping. After a restart a thousand listeners reconnect within a second, and would
 * otherwise ping in step from then on.
 */
const firstPingMs = () => Math.random() * pingMs;

/**
 * Sends assignments as server-sent events: the pages of a long poll in sequence, each with its `rv` as the event id.
 * The stream ends when the client disconnects, a newer session opens, the key ends, or the database turns out to be an
 * older backup than what the listener has seen; the listener's next poll then gets that error.
 */
export async function streamAssignments(
  response: ServerResponse,
  source: AssignmentSource,
  { after, signal }: { after: number; signal: AbortSignal },
): Promise<void> {
  let cursor = after;
  let pingAtMs = performance.now() + firstPingMs();
  response.write(": assignments follow\n\n");
  try {
    while (!signal.aborted) {
      const wake = source.wait(cursor, Math.max(0, pingAtMs - performance.now()));
      const page = await source.read(cursor).catch((error: unknown) => {
        wake.cancel();
        throw error;
      });
      if (page.items.length > 0) {
        wake.cancel();
        cursor = page.rv;
        const isDrained = response.write(`id: ${page.rv}\nevent: desired\ndata: ${JSON.stringify(page)}\n\n`);
        if (!isDrained) await once(response, "drain", { signal });
        continue;
      }
      await wake.came;
      if (performance.now() < pingAtMs || signal.aborted) continue;
      pingAtMs = performance.now() + pingMs;
      await source.renew(cursor);
      response.write(": ping\n\n");
    }
  } catch (error) {
    const isStale = error instanceof ApiError && error.code === "staleEpoch";
    if (isStale) response.write(`event: stale\ndata: {"error":"stale_epoch"}\n\n`);
  } finally {
    response.end();
  }
}
