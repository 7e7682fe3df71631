import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** Every metric of a server, in one place and one registry per server: tests run several in one process. */
export interface Metrics {
  registry: Registry;
  reconciler: ReconcilerMetrics;
  requests: Counter<"operation" | "status">;
  requestSeconds: Histogram<"operation">;
  /** Open now. */
  eventStreams: Gauge;
  webhookAttempts: Counter<"outcome">;
  builds: Counter<"outcome">;
  /** As of the last look. */
  dataDirectoryFree: Gauge;
}

export interface ReconcilerMetrics {
  passes: Counter<"outcome">;
  passSeconds: Histogram;
  /** Work found by resync that no change had announced: must stay 0. */
  resyncCorrections: Counter;
  running: Gauge;
}

/** How often the event loop's delay is looked at. At prom-client's 10 ms an idle server woke a hundred times a second for it. */
const eventLoopLookMs = 100;

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: eventLoopLookMs });
  const registers = [registry];
  const counter = <L extends string>(name: string, help: string, labelNames: L[]) =>
    new Counter({ name: `pierhead_${name}`, help, labelNames, registers });
  return {
    registry,
    requests: counter("http_requests_total", "Answered API requests.", ["operation", "status"]),
    requestSeconds: new Histogram({
      name: "pierhead_http_request_duration_seconds",
      help: "Time from request to the end of the answer.",
      labelNames: ["operation"],
      buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60],
      registers,
    }),
    eventStreams: new Gauge({ name: "pierhead_event_streams", help: "Open event streams.", registers }),
    webhookAttempts: counter("webhook_attempts_total", "Messages sent to webhooks, by what came of it.", ["outcome"]),
    dataDirectoryFree: new Gauge({
      name: "pierhead_data_directory_free_bytes",
      help: "Space left on the disk of the data directory; at 0 nothing can be stored.",
      registers,
    }),
    builds: counter("builds_total", "Ended builds: succeeded, failed or cancelled.", ["outcome"]),
    reconciler: {
      passes: counter("reconcile_passes_total", "Reconcile passes by how they ended.", ["outcome"]),
      passSeconds: new Histogram({
        name: "pierhead_reconcile_pass_duration_seconds",
        help: "Time of one reconcile pass.",
        buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60],
        registers,
      }),
      resyncCorrections: counter("resync_corrections_total", "Lost changes that resync repaired; must stay 0.", []),
      running: new Gauge({ name: "pierhead_reconcile_running", help: "Passes under way.", registers }),
    },
  };
}
