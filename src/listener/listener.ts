import type { ListenerClient } from "../client/listener-client.ts";
import { type Compute, offersLogs, offersMetrics } from "../compute/compute.ts";
import type { ListenerFacts } from "../contract/listeners/assignment.ts";
import { scaleDownAfterMs } from "../domain/limits.ts";
import type { Traffic } from "../gateway/route.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Traces } from "../telemetry/traces.ts";
import { type Clock, evenly, systemClock } from "./clock.ts";
import { Observer } from "./replicas/observer.ts";
import { type OperationLimits, Operations } from "./replicas/operations.ts";
import { Fleet } from "./replicas/replica-fleet.ts";
import { RolloutSpans } from "./replicas/rollout-spans.ts";
import { Scaler } from "./replicas/scaler.ts";
import { Sightings } from "./replicas/sightings.ts";
import { Leadership } from "./session/leadership.ts";
import { Reporter, type Snapshot } from "./session/report.ts";
import { Secrets } from "./session/secrets.ts";
import { LogCursors } from "./shipping/log-cursors.ts";
import { LogShipper } from "./shipping/ship-logs.ts";
import { MetricsShipper } from "./shipping/ship-metrics.ts";

export interface ListenerOptions {
  client: ListenerClient;
  compute: Compute;
  traffic: Traffic;
  logger: Logger;
  /** Default null: nobody collects them. */
  traces?: Traces | null;
  /** This process, for the control plane's eyes: host and process id, say. */
  instanceId: string;
  /** Of Pierhead. */
  version: string;
  /** What the control plane should know of this place. */
  facts?: ListenerFacts;
  limits?: Partial<OperationLimits>;
  /**
   * Other instances reach the same replicas: then this one stands still while the control plane has not heard of it for
   * the time of its lease. Default false: a data directory has one owner, which repairs what dies however long it is cut off.
   */
  isComputeShared?: boolean;
  /** File that keeps how far logs were shipped; null: they are read again after a restart. */
  logCursorsPath?: string | null;
  /** Fewer replicas only after fewer would have done for this long. */
  scaleDownAfterMs?: number;
  clock?: Clock;
}

export interface ListenerHealth {
  /** A session is open: this instance is the one that acts. */
  isLeading: boolean;
  /** Every deployment the control plane knows was named at least once. */
  isListed: boolean;
  /** Told to change nothing; it stands by. */
  isDrained: boolean;
  deployments: number;
  reportsPending: number;
  /** When the control plane last answered; null: never. */
  answeredAt: Date | null;
}

export interface Listener {
  start(): void;
  /** Ends the session and everything this process does. Replicas go on running. */
  stop(): Promise<void>;
  health(): ListenerHealth;
}

/**
 * A start is about 0.3 s of CPU for a small agent server. 16 at once keep two cores busy for 2.5 s, well within any
 * start deadline; a machine or cluster with more cores may be given more.
 */
export const defaultLimits: OperationLimits = { startsMax: 16, removalsMax: 128 };

/**
 * The data-plane half of the loop: follows the assignments of one listener and makes its replicas and routes so. It
 * remembers nothing that matters: whatever it is told and sees after a restart is enough to go on.
 */
export function createListener(options: ListenerOptions): Listener {
  const { compute } = options;
  const { observer, shipper, metrics, scaler, ...parts } = assemble(options);
  return listenerOf(parts, {
    begin() {
      compute.onChange(() => observer.look());
    },
    lead: () => observer.look(),
    end() {
      observer.close();
      shipper?.close();
      metrics.close();
      scaler.stop();
    },
  });
}

/** What every listener does, whatever its fleet is made of. */
export function listenerOf(
  parts: { leadership: Leadership; cursors: LogCursors; reporter: Reporter; fleet: { size: number } },
  own: { begin?: () => void; lead?: () => void; end: () => void },
): Listener {
  const { leadership, cursors, reporter, fleet } = parts;
  return {
    start() {
      own.begin?.();
      // Positions first: lines that were shipped before would be read again otherwise.
      void cursors.load().then(() => {
        own.lead?.();
        leadership.start();
      });
    },
    async stop() {
      await leadership.stop();
      own.end();
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

/** Ties the parts together. Each knows the others only by what it calls back. */
function assemble(options: ListenerOptions) {
  const { compute, traffic, logger, client, instanceId, version } = options;
  const wallClock = options.clock ?? systemClock;
  const clock = evenly(wallClock);
  const common = { clock, logger, onStale: (error: Error) => leadership.lose(error) };
  const watching = { ...common, clock: wallClock };
  const sightings = new Sightings(() => wallClock.now() - clock.now());
  const rollouts = new RolloutSpans(options.traces);
  const look = () => observer.look();
  const secrets = new Secrets({ session: () => leadership.session, clock });
  const cursors = new LogCursors({ ...common, path: options.logCursorsPath ?? null });
  const reporter = new Reporter({ ...common, rollouts, onStored: (snapshot) => fleet.stored(snapshot) });
  const shipper = offersLogs(compute) ? new LogShipper({ ...common, logs: compute, cursors }) : null;
  const observer = new Observer({
    ...common,
    compute,
    onSeen(states, number) {
      if (number === 1) cursors.keepOnly(new Set(states.map(({ replicaId }) => replicaId)));
      const { changed, isUncertain } = sightings.see(states, number);
      for (const deploymentId of changed) for (const state of sightings.of(deploymentId)) shipper?.track(state);
      fleet.seen(changed);
      if (isUncertain) look();
    },
  });
  const operations: Operations = new Operations({
    ...common,
    compute,
    limits: { ...defaultLimits, ...options.limits },
    ...{ secrets, rollouts, sightings },
    observationNumber: () => observer.number,
    readLastLines: async (replicaId) => shipper?.finish(replicaId),
    onEnd({ kind, replicaId, deploymentId }) {
      if (kind === "remove") shipper?.forget(replicaId);
      fleet.ended(deploymentId);
      look();
    },
  });
  const report = (snapshot: Snapshot) => reporter.put(snapshot);
  const forget = (deploymentId: string) => reporter.forget(deploymentId);
  const mayAct = () => options.isComputeShared !== true || leadership.isSure;
  const fleet: Fleet = new Fleet({ ...common, traffic, sightings, operations, report, forget, look, mayAct });
  const readUsage = offersMetrics(compute) ? (signal: AbortSignal) => compute.readUsage(signal) : null;
  const metrics = new MetricsShipper({ ...watching, readUsage, traffic, running: () => fleet.running() });
  const scaler = new Scaler({ ...common, compute, fleet, holdMs: options.scaleDownAfterMs ?? scaleDownAfterMs });
  const leadership: Leadership = new Leadership({
    ...watching,
    client,
    request: { instance_id: instanceId, version, protocols: [1], compute_type: compute.type, ...options.facts },
    onGained(session) {
      for (const one of [reporter, shipper, metrics]) one?.follow(session);
      fleet.lead();
      scaler.start();
      look();
    },
    onLost(reason) {
      fleet.standBack(reason);
      for (const one of [reporter, shipper, metrics]) one?.follow(null);
      scaler.stop();
      secrets.clear();
    },
    onAssignments: (assignments) => fleet.assign(rollouts.assigned(assignments)),
    onListed: (deploymentIds) => fleet.completeList(deploymentIds),
    held: () => fleet.held(),
    onUnknown: (deploymentIds) => fleet.disown(deploymentIds),
    ...{ onSure: () => fleet.lookAgain(), needsProof: options.isComputeShared === true },
  });
  return { leadership, observer, reporter, shipper, metrics, scaler, cursors, fleet };
}
