import { setTimeout as sleep } from "node:timers/promises";
import { backoffMs } from "../../../base/backoff.ts";
import { describeError, type Logger } from "../../../telemetry/log.ts";
import { labels } from "../replicas/container.ts";
import type { Engine } from "./engine.ts";
import { jsonValues } from "./streams.ts";

interface Event {
  Action: "die" | "destroy";
  Actor: { ID: string };
}

/** An engine that restarts is unreachable for a second or two. */
const retryBounds = { firstMs: 250, maxMs: 5_000 };

/**
 * Follows the events of our containers until `signal` aborts. Reports each exit, and calls `onChange` when a container was
 * removed and after each reconnection, because events in between are lost.
 */
export async function followEvents(
  engine: Engine,
  options: {
    installationId: string;
    logger: Logger;
    signal: AbortSignal;
    /** Separate from `onChange`, because the engine's list of containers shows an exit only some time after its event. */
    onEnd: (containerId: string) => void;
    onChange: () => void;
  },
): Promise<void> {
  const { installationId, logger, signal, onEnd, onChange } = options;
  const filters = {
    type: ["container"],
    event: ["die", "destroy"],
    label: [`${labels.installation}=${installationId}`, labels.replica],
  };
  let failures = 0;
  while (!signal.aborted) {
    try {
      const stream = await engine.stream("GET", "/events", { query: { filters }, signal });
      if (failures > 0) logger.info({ host: engine.host }, "container engine is reachable again");
      failures = 0;
      onChange();
      for await (const { Action, Actor } of jsonValues<Event>(stream)) {
        if (Action === "die") onEnd(Actor.ID);
        else onChange();
      }
      throw new Error("the engine ended its stream of events");
    } catch (error) {
      if (signal.aborted) return;
      failures += 1;
      if (failures === 1)
        logger.warn({ host: engine.host, error: describeError(error) }, "container engine is not reachable");
      await sleep(backoffMs(failures, retryBounds), undefined, { signal }).catch(() => {});
    }
  }
}
