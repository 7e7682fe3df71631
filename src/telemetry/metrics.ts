import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** Every metric of a server. The registry is per server, because tests run several servers in one process. */
export interface Metrics {
  registry: Registry;
  reconciler: ReconcilerMetrics;
  requests: Counter<"operation" | "status">;
  requestSeconds: Histogram<"operation">;
  /** Streams that are open now. */
  eventStreams: Gauge;
  webhookAttempts: Counter<"outcome">;
  builds: Counter<"outcome">;
  /** As of the last check. */
  dataDirectoryFree: Gauge;
  newestBackup: Gauge;
}

export interface ReconcilerMetrics {
  passes: Counter<"outcome">;
  passSeconds: Histogram;
  /** Work that resync found without an announced change; must stay 0. */
  resyncCorrections: Counter;
  running: Gauge;
}

/** Sampling interval of the event loop delay. At prom-client's 10 ms an idle server woke a hundred times a second for it. */
const eventLoopSampleMs = 100;

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: eventLoopSampleMs });
  const registers = [registry];
  const counter = <L extends string>(name: string, help: string, labelNames: L[]) =>
    new Counter({ name: `pierhead_${name}`, help, labelNames, registers });
  return {
    registry,
    requests: counter("http_requests_total", "Completed API requests.", ["operation", "status"]),
    requestSeconds: new Histogram({
      name: "pierhead_http_request_duration_seconds",
      help: "Time from a request to the end of its response.",
      labelNames: ["operation"],
      buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60],
      registers,
    }),
    eventStreams: new Gauge({ name: "pierhead_event_streams", help: "Open event streams.", registers }),
    webhookAttempts: counter("webhook_attempts_total", "Webhook delivery attempts by outcome.", ["outcome"]),
    dataDirectoryFree: new Gauge({
      name: "pierhead_data_directory_free_bytes",
      help: "Free disk space of the data directory; at 0 nothing can be stored.",
      registers,
    }),
    newestBackup: new Gauge({
      name: "pierhead_newest_backup_timestamp_seconds",
      help: "When the newest backup in the bucket was made; 0 without scheduled backups.",
      registers,
    }),
    builds: counter("builds_total", "Ended builds: succeeded, failed or cancelled.", ["outcome"]),
    reconciler: {
      passes: counter("reconcile_passes_total", "Reconcile passes by outcome.", ["outcome"]),
      passSeconds: new Histogram({
        name: "pierhead_reconcile_pass_duration_seconds",
        help: "Duration of one reconcile pass.",
        buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60],
        registers,
      }),
      resyncCorrections: counter("resync_corrections_total", "Lost changes that resync repaired; must stay 0.", []),
      running: new Gauge({ name: "pierhead_reconcile_running", help: "Reconcile passes in progress.", registers }),
    },
  };
}
