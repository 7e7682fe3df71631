import { type Static, Type } from "typebox";
import { literals, mapOf, nullable, optional, timestamp, uuid } from "../schema.ts";
import { ClusterRun } from "./cluster.ts";

/**
 * The listener protocol `/dp/v1`: the only connection between a control plane and a data plane. The listener always dials.
 * The control plane sends *what should run* (assignments), and the listener sends *what it sees* (reports). There are no
 * commands about what runs; connections of users to agents are orders of their own (`tunnel.ts`).
 */

/** How a new revision replaces the serving one: beside it, or after it if the state is local and exclusive. */
export const Rollout = literals(["rolling", "handover"]);
export type Rollout = Static<typeof Rollout>;

/** What keeps the threads and runs of an agent server. */
export const Engine = literals(["file", "memory", "postgres", "aegra", "own"]);
export type Engine = Static<typeof Engine>;

/**
 * What decided about the engine: the choice of the deployment, the configuration, the default, or the packages of the project, which
 * do not work with the default.
 */
export const EngineBecause = literals(["deployment", "configuration", "default", "packages"]);
export type EngineBecause = Static<typeof EngineBecause>;

const engineBecause = Type.Optional(EngineBecause);

const engine = Type.Optional(
  Type.Union([Engine], { description: "Absent: the image or an earlier builder does not say." }),
);

/** How to start a built agent server. The first two run one of the open LangGraph servers through our host shims. */
export const StartPlan = Type.Union([
  Type.Object({
    runner: Type.Literal("langgraph-js"),
    toolchain_dir: Type.String({ description: "Absolute directory whose node_modules holds the agent server." }),
    config_path: Type.String({ description: "langgraph.json, relative to the artifact directory." }),
    engine_dir: Type.Optional(
      Type.String({ description: "Absolute directory of the engine on PostgreSQL. Absent: the state is in files." }),
    ),
  }),
  Type.Object({
    runner: Type.Literal("langgraph-python"),
    environment_dir: Type.String({
      description: "Absolute directory of the virtual environment with the agent server.",
    }),
    packages_dir: Type.String({
      description: "Makes the project's own packages importable. Relative to the artifact directory.",
    }),
    config_path: Type.String({ description: "langgraph.json, relative to the artifact directory." }),
  }),
  Type.Object({
    runner: Type.Literal("command"),
    argv: Type.Array(Type.String(), {
      minItems: 1,
      description: "Program and arguments, never a shell string. The driver replaces $PORT, $HOST and $PUBLIC_URL.",
    }),
    cwd: Type.String({ description: "Relative to the artifact directory." }),
    environment_dir: Type.Optional(
      Type.String({ description: "Absolute directory of its virtual environment. Absent: it is no Python server." }),
    ),
    packages_dir: Type.Optional(
      Type.String({
        description: "Makes the project's own packages importable. Relative to the artifact directory.",
      }),
    ),
  }),
]);
export type StartPlan = Static<typeof StartPlan>;

const variables = Type.Optional(
  Type.Array(Type.String(), {
    description:
      "Names in the project's example file of variables, such as .env.example, and those that its sources read without a default.",
  }),
);

const databaseSchemes = Type.Optional(
  mapOf(
    Type.String({ pattern: "^postgres(ql)?(\\+[a-z0-9]+)?$" }),
    "Scheme, with the driver, of each variable whose value in the project's example file is the address of a PostgreSQL.",
  ),
);

const databaseParts = Type.Optional(
  mapOf(
    Type.String({ pattern: "^(host|port|user|password|name)$" }),
    "Part of the address of its PostgreSQL that each variable has for the project, such as DB_HOST.",
  ),
);

const startsAlone = Type.Optional(
  Type.Boolean({
    description:
      "Commands run before the server in each start, such as the migration of a database: the first replica is ready before others start.",
  }),
);

const builder = Type.Optional(
  Type.String({ description: "Version of the builder. Absent: this server did not build it." }),
);

const ofEveryArtifact = {
  rollout: Rollout,
  engine,
  engine_because: engineBecause,
  variables,
  database_schemes: databaseSchemes,
  database_parts: databaseParts,
  starts_alone: startsAlone,
  builder,
};

/** Result of a build, or the given image. Immutable and identified by its digest. */
export const Artifact = Type.Union([
  Type.Object({
    kind: Type.Literal("directory"),
    digest: Type.String({ description: "sha256:<hex> of all inputs of the build." }),
    path: Type.String({ description: "Absolute directory on the host that built it." }),
    start: StartPlan,
    health_path: Type.String({
      description:
        "Answers 200 once the server can serve. Empty: the first of /ok, /health, /healthz and / that answers 200, or else any response.",
    }),
    ...ofEveryArtifact,
  }),
  Type.Object({
    kind: Type.Literal("image"),
    digest: Type.String(),
    uri: Type.String(),
    health_path: Type.String({ description: "As for a directory. In a cluster, empty means that the port is open." }),
    ...ofEveryArtifact,
  }),
]);
export type Artifact = Static<typeof Artifact>;

/** Everything a data plane needs to run one revision, except its secrets (requested separately by `secret_set_id`). */
export const RevisionRun = Type.Object({
  revision_id: uuid(),
  artifact: Artifact,
  env: mapOf(Type.String(), "Variables that are not secret: the injected names of contract 7.2."),
  secret_set_id: nullable(uuid()),
  min_replicas: Type.Integer({ minimum: 0, maximum: 100 }),
  max_replicas: Type.Integer({ minimum: 1, maximum: 100 }),
  cpu_limit_cores: Type.Number(),
  memory_limit_mib: Type.Integer(),
  start_timeout_ms: Type.Integer({ description: "A replica that is not ready after this time has failed to start." }),
  drain_timeout_ms: Type.Integer({ description: "How long requests in flight may take to end before SIGKILL." }),
  cluster: Type.Optional(nullable(ClusterRun, "For a workspace's listener, which runs a cluster.")),
});
export type RevisionRun = Static<typeof RevisionRun>;

/**
 * Desired state of one deployment for its listener. `target` is the revision to bring up. `serving` is the revision that
 * keeps serving until the target is ready, and permanently if the target fails. Equal ids mean: keep it running.
 */
export const Assignment = Type.Object({
  deployment_id: uuid(),
  tenant_id: uuid(),
  slug: Type.String(),
  rv: Type.Integer({ description: "Resource version, increasing per listener. It is the cursor of `desired`." }),
  generation: Type.Integer({
    description: "Increases with each change of this assignment. Reports name the one they refer to.",
  }),
  op: literals(["apply", "delete"]),
  target: nullable(RevisionRun),
  serving: nullable(RevisionRun),
  namespace: Type.Optional(
    Type.String({
      description: "With `delete`: the namespace in the cluster that the deployment named. Absent: it named none.",
    }),
  ),
  idle_after_ms: nullable(Type.Integer({ description: "Stop the last replica after this long without a request." })),
  traceparent: Type.Optional(
    Type.String({ description: "W3C Trace Context of the step that wrote it. Only if tracing is on." }),
  ),
});
export type Assignment = Static<typeof Assignment>;

export const DesiredPage = Type.Object({
  items: Type.Array(Assignment),
  rv: Type.Integer({ description: "Pass it as `after` in the next call." }),
  more: Type.Boolean(),
});
export type DesiredPage = Static<typeof DesiredPage>;

/** Facts that a data plane reports about itself. A server that knows a capability does not use it without its name here. */
export const ListenerFacts = Type.Object({
  agents_url: Type.Optional(
    Type.String({
      pattern: "^https?://[^\\s]+$",
      maxLength: 512,
      description:
        "Where the agents of the data plane answer. `{slug}` stands for the deployment's slug, `{namespace:agents}` for the " +
        "namespace that the deployment named, or `agents` if it named none. Absent: below the server's own address.",
    }),
  ),
  capabilities: Type.Optional(Type.Array(Type.String({ maxLength: 64 }), { maxItems: 64 })),
  image_registry: Type.Optional(
    Type.String({
      maxLength: 256,
      description: "Repository to which this listener pushes the images that it builds. Absent: it builds none.",
    }),
  ),
  engine_version: Type.Optional(
    Type.String({ maxLength: 64, description: "Version of the cluster or container engine." }),
  ),
});
export type ListenerFacts = Static<typeof ListenerFacts>;

export const SessionRequest = Type.Object({
  instance_id: Type.String({ minLength: 1, maxLength: 128 }),
  version: Type.String({ maxLength: 64 }),
  protocols: Type.Array(Type.Integer(), { minItems: 1 }),
  compute_type: Type.String({ maxLength: 32 }),
  ...ListenerFacts.properties,
});
export type SessionRequest = Static<typeof SessionRequest>;

export const Session = Type.Object({
  session_id: uuid(),
  listener_id: uuid(),
  epoch: Type.Integer({ description: "Fencing token. Calls with an older one answer 409 `stale_epoch`." }),
  protocol: Type.Integer(),
  heartbeat_s: Type.Integer(),
  lease_ttl_s: Type.Integer(),
});
export type Session = Static<typeof Session>;

/** Why something is not running, in words that a user can act on. */
export const Cause = Type.Object({
  reason: Type.String({
    description:
      "CamelCase, stable: Exited, OutOfMemory, OutOfDisk, NotHealthy, StartError, EngineRefused, PortTaken, ...",
  }),
  message: Type.String({ description: "One or two sentences: what happened and what to do next." }),
  exit_code: nullable(Type.Integer()),
  signal: nullable(Type.String()),
  last_lines: Type.Array(Type.String(), { maxItems: 30 }),
  variables: Type.Optional(
    Type.Array(Type.String({ maxLength: 256 }), {
      maxItems: 10,
      description: "Variables that the agent server misses, by its log. Absent: none is known.",
    }),
  ),
});
export type Cause = Static<typeof Cause>;

/** The newest exit of a replica that nothing asked to stop. It stays in reports after the replica has been replaced. */
export const ReplicaExitReport = Type.Object({
  id: Type.String({ maxLength: 512, description: "Unique for each exit, also after a restart of the listener." }),
  replica_id: Type.String(),
  revision_id: uuid(),
  at: timestamp("When it ended, or when the listener noticed."),
  restarts: Type.Integer({ description: "Exits of this replica or revision that the listener knows of." }),
  cause: Cause,
});
export type ReplicaExitReport = Static<typeof ReplicaExitReport>;

export const ReplicaReport = Type.Object({
  replica_id: Type.String(),
  revision_id: uuid(),
  phase: literals(["starting", "ready", "draining", "exited"]),
  address: nullable(Type.String({ description: "host:port at which the gateway reaches it." })),
  restarts: Type.Integer(),
  started_at: nullable(Type.String()),
  limits: Type.Object({ memory: Type.String(), cpu: Type.String() }),
});
export type ReplicaReport = Static<typeof ReplicaReport>;

/** How the target took over the local state of the revision before it. */
export const Handover = Type.Object({
  held_ms: Type.Integer({ description: "How long new requests waited." }),
  requests_cut: Type.Integer({ description: "Requests and streams that outlasted the drain timeout." }),
  runs_cut: Type.Integer({ description: "Runs that outlasted the drain timeout, if the server reports runs." }),
  runs_continue: Type.Boolean({ description: "The new server continues such runs from their last checkpoint." }),
});
export type Handover = Static<typeof Handover>;

/** Full snapshot of one deployment as its listener sees it. A newer one replaces an older one. */
export const DeploymentReport = Type.Object({
  deployment_id: uuid(),
  generation: Type.Integer({ description: "Generation of the assignment that this report refers to." }),
  seq: Type.Integer({ description: "Increases per session. A report older than the last stored one is dropped." }),
  target_revision_id: nullable(uuid()),
  target_phase: literals(["none", "starting", "ready", "failed"], {
    description: "`ready` means: healthy, and traffic has moved to it.",
  }),
  serving_revision_id: nullable(uuid()),
  asleep: Type.Boolean({ description: "Scaled to zero. The next request wakes it." }),
  deleted: Type.Boolean({ description: "The data plane has deleted everything of this deployment." }),
  server_version: nullable(Type.String({ description: "Version from `/info` of the target, for image_version." })),
  cause: nullable(Cause),
  cause_since: Type.Optional(
    timestamp("Since when the cause exists, by the engine's clock. Absent: the engine does not say."),
  ),
  crash_streak: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: "Exits in a row of the revision that serves, each soon after its start. Absent: 0.",
    }),
  ),
  last_exit: Type.Optional(ReplicaExitReport),
  handover: Type.Optional(Handover),
  replicas: Type.Array(ReplicaReport),
});
export type DeploymentReport = Static<typeof DeploymentReport>;

export const StatusBatch = Type.Object({ reports: Type.Array(DeploymentReport, { maxItems: 100 }) });
export type StatusBatch = Static<typeof StatusBatch>;

export const ReplicaLogLine = Type.Object({
  deployment_id: uuid(),
  revision_id: uuid(),
  replica_id: Type.String({ maxLength: 512 }),
  key: Type.String({
    maxLength: 1_024,
    description: "Unique per line and the same in every retry (replica id + byte offset).",
  }),
  timestamp: Type.String(),
  stream: literals(["stdout", "stderr"]),
  level: Type.String(),
  message: Type.String({ maxLength: 65_536 }),
});
export type ReplicaLogLine = Static<typeof ReplicaLogLine>;

export const LogBatch = Type.Object({ lines: Type.Array(ReplicaLogLine, { maxItems: 1_000 }) });
export type LogBatch = Static<typeof LogBatch>;

export const SecretValues = Type.Object({ values: mapOf(Type.String()) });
export type SecretValues = Static<typeof SecretValues>;

/** Items of one page of an inventory: 450 KiB, so that reading it does not delay other requests. */
export const inventoryPageMax = 5_000;

/**
 * Assignments that a listener holds, or the page of them with ids above `after`, up to and including `through`. Comparing
 * them finds a change that both sides missed.
 */
export const Inventory = Type.Object({
  items: Type.Array(Type.Object({ deployment_id: uuid(), generation: Type.Integer() }), { maxItems: inventoryPageMax }),
  after: optional(uuid(), "Absent: from the first id."),
  through: optional(uuid(), "Absent: to the last id."),
});
export type Inventory = Static<typeof Inventory>;

export const InventoryAnswer = Type.Object({
  unknown: Type.Array(uuid(), {
    description: "Not assigned to this listener. It must remove everything that it runs of them.",
  }),
  is_behind: Type.Boolean({ description: "An assignment is missing or outdated: list everything again." }),
});
export type InventoryAnswer = Static<typeof InventoryAnswer>;

/** Header that carries the session's epoch on every call except the one that opens the session. */
export const epochHeader = "x-pierhead-epoch";
