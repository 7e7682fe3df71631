import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { ApiError } from "../../contract/error.ts";
import type { DesiredPage } from "../../contract/listeners/assignment.ts";

export interface AssignmentSource {
  /** @throws ApiError 401 when the key has ended that asks. */
  read(after: number): Promise<DesiredPage>;
  /** Settles when there may be more after this cursor, at latest after `maxMs`. */
  wait(after: number, maxMs: number): { came: Promise<void>; cancel(): void };
  /** Renews the session. @throws ApiError 409 `staleEpoch`; 410 when there is no such cursor any more; 401 as above. */
  renew(cursor: number): Promise<void>;
}

/** Well within the lease, which each one renews: a stream that is open needs no other sign of life. */
export const pingMs = 10_000;

/**
 * The first comes at any moment of that time: after a restart a thousand listeners come back within a second, and would ping
 * together for ever.
 */
const firstPingMs = () => Math.random() * pingMs;

/**
 * Assignments as server-sent events: the pages of a long poll one after the other, each with its `rv` as the event's id. Ends
 * when the reader goes, when a newer session was opened, with the key, or when the database is an older copy of what was
 * told: a poll says so then.
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
