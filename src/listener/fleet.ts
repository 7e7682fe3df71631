import type { Clock } from "../base/clock.ts";
import type { ListenerSession } from "../client/listener-client.ts";
import type { ReplicaLoad, ReplicaLogs, ReplicaRuns, ReplicaUsage } from "../compute/compute.ts";
import type { Assignment, Inventory, ListenerFacts } from "../contract/listeners/assignment.ts";
import type { Traffic } from "../gateway/route.ts";
import type { Logger } from "../telemetry/log.ts";
import type { RolloutSpans } from "./session/rollout-spans.ts";
import type { Secrets } from "./session/secrets.ts";
import type { Snapshot } from "./session/snapshot.ts";
import type { LogCursors } from "./shipping/log-cursors.ts";
import type { LogShipper } from "./shipping/log-shipper.ts";

/** One deployment that has replicas, or had some that exited. */
export interface RunningDeployment {
  deploymentId: string;
  /** Replicas that have not exited. */
  replicaIds: string[];
  /** Since this listener began to lead. */
  restarts: number;
}

/**
 * All deployments of one listener on one compute. The listener passes on the assignments of the control plane. The fleet
 * applies them and reports through its `FleetContext`. Everything a fleet remembers may be lost: assignments and replicas
 * are enough to continue.
 */
export interface Fleet {
  /** Number of deployments. */
  readonly size: number;
  /** Begins to observe the compute. Called once, before the first session and after the log cursors were loaded. */
  start(): void;
  /** Ends all timers and observations. Replicas keep running. */
  close(): void;
  /** This instance leads from now on: the fleet may change replicas. */
  lead(): void;
  /** Another instance leads: the fleet stops changing replicas at once and forgets all assignments. */
  stepDown(reason: Error): void;
  assign(assignments: Assignment[]): void;
  /** The control plane has listed every deployment. Any other deployment on the compute is an orphan. */
  completeList(deploymentIds: ReadonlySet<string>): void;
  /** Returns the assignments that the fleet holds, for the inventory that the control plane compares. */
  held(): Inventory["items"];
  /** The control plane no longer knows these deployments. */
  disown(deploymentIds: ReadonlySet<string>): void;
  /** Rechecks every deployment, because passes were skipped while `mayAct` was false. */
  recheck(): void;
  /** The control plane has stored this report. For a deleted deployment it is the last one. */
  reportStored(snapshot: Snapshot): void;
  /** Returns the deployments that have replicas, or had restarts. */
  running(): RunningDeployment[];
}

/** The parts of the listener that a fleet uses. */
export interface FleetContext {
  /** Steady: deadlines and anything kept in memory go by it. */
  clock: Clock;
  /** The machine's clock, which compute drivers go by. */
  wallClock: Clock;
  logger: Logger;
  secrets: Secrets;
  rollouts: RolloutSpans;
  cursors: LogCursors;
  /** Null when the compute keeps no logs. */
  logShipper: LogShipper | null;
  /** Null while no session is open. */
  session: () => ListenerSession | null;
  /** False while another instance may act on the same replicas. */
  mayAct: () => boolean;
  report: (snapshot: Snapshot) => void;
  /** Drops what is known and unsent about a deployment. */
  forget: (deploymentId: string) => void;
}

/** A kind of fleet on one compute: what the listener needs to know before it can create the fleet. */
export interface FleetFactory {
  computeType: string;
  /** Sent when the session opens. They win over the facts in the listener's options. */
  facts: ListenerFacts;
  /** Null when the compute keeps no logs. */
  logs: ReplicaLogs | null;
  /** Null, or resolves to null, when the compute measures nothing. */
  readUsage: ((signal: AbortSignal) => Promise<(ReplicaUsage | ReplicaLoad)[] | null>) | null;
  /** Null when the compute cannot ask replicas for their runs. */
  readRunCounts: ReplicaRuns["readRunCounts"] | null;
  /** The gateway's counters. */
  traffic: Pick<Traffic, "counts" | "onFailedRequest">;
  create(context: FleetContext): Fleet;
}
