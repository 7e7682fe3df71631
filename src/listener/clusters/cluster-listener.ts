import type { ClusterCompute } from "../../compute/cluster.ts";
import { systemClock } from "../clock.ts";
import { type Listener, type ListenerOptions, listenerOf } from "../listener.ts";
import { RolloutSpans } from "../replicas/rollout-spans.ts";
import { Leadership } from "../session/leadership.ts";
import { Reporter, type Snapshot } from "../session/report.ts";
import { Secrets } from "../session/secrets.ts";
import { LogCursors } from "../shipping/log-cursors.ts";
import { LogShipper } from "../shipping/ship-logs.ts";
import { MetricsShipper } from "../shipping/ship-metrics.ts";
import { ClusterFleet } from "./cluster-fleet.ts";
import { TrackedReplicas } from "./tracked-replicas.ts";

export interface ClusterListenerOptions extends Omit<ListenerOptions, "compute" | "traffic" | "limits"> {
  cluster: ClusterCompute;
  /** How long a trouble that may pass, such as an image that cannot be pulled, is waited for. Default 2 minutes. */
  graceMs?: number;
  /** How often is told what replicas use. Default: once a minute. */
  metricsIntervalMs?: number;
}

/** Callers reach agents by the cluster's own ways: what they ask is not seen here. */
const noTraffic = { counts: () => [] };

/**
 * The same listener on an engine that replaces replicas and moves traffic by itself: one session, the same reports, and
 * whole deployments where the other one handles replicas.
 */
export function createClusterListener(options: ClusterListenerOptions): Listener {
  const { cluster, client, logger, instanceId, version, clock = systemClock } = options;
  const common = { clock, logger };
  const onStale = (error: Error) => leadership.lose(error);
  const secrets = new Secrets({ session: () => leadership.session, clock });
  const cursors = new LogCursors({ ...common, path: options.logCursorsPath ?? null });
  const rollouts = new RolloutSpans(options.traces);
  const reporter = new Reporter({ ...common, rollouts, onStored: (snapshot) => fleet.stored(snapshot), onStale });
  const shipper = new LogShipper({ ...common, logs: cluster, cursors, onStale });
  const fleet: ClusterFleet = new ClusterFleet({
    ...common,
    ...{ cluster, secrets },
    report: (snapshot: Snapshot) => reporter.put(snapshot),
    forget: (deploymentId) => reporter.forget(deploymentId),
    tracked: new TrackedReplicas(shipper),
    session: () => leadership.session ?? null,
    mayAct: () => options.isComputeShared !== true || leadership.isSure,
    ...(options.graceMs === undefined ? {} : { graceMs: options.graceMs }),
  });
  const metrics = new MetricsShipper({
    ...common,
    readUsage: (signal) => cluster.readLoads(signal),
    traffic: noTraffic,
    running: () => fleet.running(),
    onStale,
    ...(options.metricsIntervalMs === undefined ? {} : { intervalMs: options.metricsIntervalMs }),
  });
  const facts = { ...options.facts, ...cluster.facts() };
  const leadership: Leadership = new Leadership({
    ...common,
    client,
    request: { instance_id: instanceId, version, protocols: [1], compute_type: cluster.type, ...facts },
    onGained(session) {
      reporter.follow(session);
      shipper.follow(session);
      metrics.follow(session);
      fleet.lead();
    },
    onLost(reason) {
      fleet.standBack(reason);
      reporter.follow(null);
      shipper.follow(null);
      metrics.follow(null);
      secrets.clear();
    },
    onAssignments: (assignments) => fleet.assign(rollouts.assigned(assignments)),
    onListed: (deploymentIds) => fleet.completeList(deploymentIds),
    held: () => fleet.held(),
    onUnknown: (deploymentIds) => fleet.disown(deploymentIds),
    onSure: () => fleet.lookAgain(),
    needsProof: options.isComputeShared === true,
  });
  return listenerOf(
    { leadership, cursors, reporter, fleet },
    {
      end() {
        shipper.close();
        metrics.close();
      },
    },
  );
}
