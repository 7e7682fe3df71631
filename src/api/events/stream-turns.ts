import { SlotQueues } from "../../base/slot-queues.ts";
import { errors } from "../../contract/error.ts";
import { eventStreamsMax } from "../../domain/limits.ts";
import type { Db } from "../../store/engine/database.ts";

/** Reads of the streams of one workspace that run at the same time. The embedded database has one session. */
const atOnceOf: Record<Db["kind"], number> = { embedded: 1, postgres: 4 };

/** All streams of the largest workspace have read once within a minute, also when all of them read long logs. */
const waitMaxMs = 120_000;

/**
 * Lets the streams of one workspace read in turn. 300 of them that read a long log from its start made a request of another workspace
 * wait for 0.7 s in the median. Each stream waits for one read at a time, so that none overtakes the others. A stream that waits for too
 * long ends, and its client continues from its cursor.
 */
export const streamTurns = (database: Db["kind"]): SlotQueues =>
  new SlotQueues({
    slots: atOnceOf[database],
    waitingMax: eventStreamsMax,
    waitMaxMs,
    refusal: () => errors.tooManyRequests(1),
  });
