import { type Clock, steadyClock, systemClock } from "../base/clock.ts";
import type { ListenerClient } from "../client/listener-client.ts";
import type { ListenerFacts, SessionRequest } from "../contract/listeners/assignment.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Traces } from "../telemetry/traces.ts";
import { ClusterBuilds, type ClusterBuildsOptions } from "./clusters/cluster-builds.ts";
import type { Fleet, FleetFactory } from "./fleet.ts";
import { Leadership } from "./session/leadership.ts";
import { Reporter } from "./session/reporter.ts";
import { RolloutSpans } from "./session/rollout-spans.ts";
import { Secrets } from "./session/secrets.ts";
import { LogCursors } from "./shipping/log-cursors.ts";
import { LogShipper } from "./shipping/log-shipper.ts";
import { MetricsShipper } from "./shipping/metrics-shipper.ts";
import { TunnelServer, type TunnelServerOptions } from "./tunnels/tunnel-server.ts";

export interface ListenerOptions {
  client: ListenerClient;
  logger: Logger;
  /** Default null: no traces are collected. */
  traces?: Traces | null;
  /** Identifies this process to the control plane, for example by host and process id. */
  instanceId: string;
  /** Version of Pierhead. */
  version: string;
  /** What the control plane should know about this data plane. */
  facts?: ListenerFacts;
  /**
   * Whether other instances reach the same replicas. If true, this instance changes nothing while it has not renewed its
   * session within the lease. Default false: a data directory has one owner, which repairs its replicas however long it
   * is cut off.
   */
  isComputeShared?: boolean;
  /** File that stores how far each replica's logs were shipped. Null: all logs are read again after a restart. */
  logCursorsPath?: string | null;
  /** Time between two metric samples. Default: one minute. */
  metricsIntervalMs?: number;
  /** Builds of images in the cluster. Absent: none. */
  builds?: Pick<ClusterBuildsOptions, "builds" | "controlPlaneUrl">;
  /** Connections from the control plane to agents. Absent: the control plane is in this process and needs none. */
  tunnels?: Pick<TunnelServerOptions, "open" | "targets">;
  clock?: Clock;
}

export interface ListenerHealth {
  /** This instance holds the session, so it is the one that acts. */
  isLeading: boolean;
  /** The control plane has listed every deployment at least once in this session. */
  isListed: boolean;
  /** The control plane has asked this listener to change nothing, so it stands by. */
  isDrained: boolean;
  deployments: number;
  reportsPending: number;
  /** When the control plane last answered. Null: never. */
  answeredAt: Date | null;
}

export interface Listener {
  start(): void;
  /** Closes the session and stops all work of this process. Replicas keep running. */
  stop(): Promise<void>;
  health(): ListenerHealth;
}

/**
 * Creates the data-plane half of the control loop. The listener follows the assignments of one session, has its fleet
 * apply them, and ships reports, logs and metrics back. It keeps no state that it could not rebuild after a restart.
 */
export function createListener(options: ListenerOptions, factory: FleetFactory): Listener {
  const { leadership, fleet, cursors, reporter, logShipper, metrics, builds, tunnels } = assemble(options, factory);
  return {
    start() {
      // The cursors come first: without them, lines that were shipped before would be read again.
      void cursors.load().then(() => {
        fleet.start();
        leadership.start();
      });
    },
    async stop() {
      await leadership.stop();
      fleet.close();
      logShipper?.close();
      metrics.close();
      builds?.close();
      await tunnels?.close();
      reporter.close();
      await cursors.close();
    },
    health: () => ({
      isLeading: leadership.session !== null,
      isListed: leadership.isListed,
      isDrained: leadership.isDrained,
      deployments: fleet.size,
      reportsPending: reporter.pendingCount,
      answeredAt: leadership.answeredAt,
    }),
  };
}

/** Connects the parts. Each knows the others only by its callbacks. */
function assemble(options: ListenerOptions, factory: FleetFactory) {
  const { client, logger, metricsIntervalMs: intervalMs } = options;
  const wallClock = options.clock ?? systemClock;
  const clock = steadyClock(wallClock);
  const requiresLease = options.isComputeShared === true;
  const common = { clock, logger, onStale: (error: Error) => leadership.endSession(error) };
  const secrets = new Secrets({ session: () => leadership.session, clock });
  const cursors = new LogCursors({ clock, logger, path: options.logCursorsPath ?? null });
  const rollouts = new RolloutSpans(options.traces);
  const reporter = new Reporter({ ...common, rollouts, onStored: (snapshot) => fleet.reportStored(snapshot) });
  const logShipper = factory.logs === null ? null : new LogShipper({ ...common, logs: factory.logs, cursors });
  const fleet: Fleet = factory.create({
    clock,
    wallClock,
    logger,
    secrets,
    rollouts,
    cursors,
    logShipper,
    session: () => leadership.session,
    mayAct: () => !requiresLease || leadership.isLeaseValid,
    report: (snapshot) => reporter.put(snapshot),
    forget: (deploymentId) => reporter.forget(deploymentId),
  });
  const { readUsage, readRunCounts, traffic } = factory;
  const running = () => fleet.running();
  const measured = { readUsage, readRunCounts, traffic, running };
  const metrics = new MetricsShipper({ ...common, ...measured, clock: wallClock, intervalMs });
  if (logShipper !== null) traffic?.onFailedRequest?.((failed) => logShipper.addFailedRequest(failed));
  const builds = options.builds && new ClusterBuilds({ ...common, ...options.builds });
  const tunnels = options.tunnels && new TunnelServer({ clock, logger, ...options.tunnels });
  const senders = [reporter, logShipper, metrics, builds, tunnels];
  const leadership: Leadership = new Leadership({
    clock: wallClock,
    logger,
    client,
    request: sessionRequest(options, factory),
    onGained(session) {
      for (const sender of senders) sender?.follow(session);
      fleet.lead();
    },
    onLost(reason) {
      fleet.stepDown(reason);
      for (const sender of senders) sender?.follow(null);
      secrets.clear();
    },
    onAssignments: (assignments) => fleet.assign(rollouts.assigned(assignments)),
    onListed: (deploymentIds) => fleet.completeList(deploymentIds),
    held: () => fleet.held(),
    onUnknown: (deploymentIds) => fleet.disown(deploymentIds),
    onLeaseRegained: () => fleet.recheck(),
    requiresLease: requiresLease,
  });
  return { leadership, fleet, cursors, reporter, logShipper, metrics, builds, tunnels };
}

function sessionRequest({ instanceId, version, facts }: ListenerOptions, factory: FleetFactory): SessionRequest {
  const ownFacts = { ...facts, ...factory.facts };
  return { instance_id: instanceId, version, protocols: [1], compute_type: factory.computeType, ...ownFacts };
}
