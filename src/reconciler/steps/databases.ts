import { engineLacks } from "../../base/engine-lacks.ts";
import { failure as failureOf } from "../../domain/failures.ts";
import { effectiveSizes } from "../../domain/sizes.ts";
import {
  type DatabaseCredentials,
  DatabaseServerError,
  type DatabaseSpec,
  databaseNameOf,
} from "../../provision/database-server.ts";
import type {
  DatabaseKind,
  DatabaseSettingsRow,
  DeploymentDatabase,
} from "../../store/deployments/deployment-databases.ts";
import type { RevisionRow } from "../../store/revisions/revisions.ts";
import { describeError } from "../../telemetry/log.ts";
import type { StepDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import { NoFreeSlot } from "../slots.ts";
import type { ReconcilerStore } from "../store.ts";
import {
  type DatabaseKinds,
  type DatabaseServers,
  lostServices,
  type Service,
  serverOf,
  services,
} from "./database-servers.ts";
import { done, type Performed } from "./performed.ts";
import { recordMove } from "./step-span.ts";

/**
 * A deployment with one of these secrets brings its own server, so nothing is created and nothing is ever deleted
 * (contract 4.6).
 */
const customNames = { postgres: "POSTGRES_URI_CUSTOM", redis: "REDIS_URI_CUSTOM" } as const;

/** Retry delay while a revision waits for the database, and while none does. */
const retryWhileWaitedForMs = 2_000;
const retryMs = 30_000;

type DatabaseDeps = Pick<StepDeps, "store" | "databases" | "logger" | "outward">;

/** Creates the databases of a deployment and moves it AWAITING_DATABASE -> READY. Retries until it succeeds. */
export async function provisionDatabase(
  deps: DatabaseDeps,
  state: DeploymentState,
  _step: unknown,
  signal: AbortSignal,
): Promise<Performed> {
  const { store, databases } = deps;
  if (databases !== null) {
    const failure = await createDatabases(deps, databases, state, signal);
    if (failure !== null) return failLateRevisions(store, state, failure);
  }
  const engine = await defaultEngineOf(deps, state);
  const move = { from: "AWAITING_DATABASE", to: "READY", byPass: true } as const;
  const isMoved = await store.moveDeployment(state.id, { ...move, ...(engine !== null && { defaultEngine: engine }) });
  store.reached("database provisioned");
  return isMoved ? { kind: "done", state: { ...state, status: "READY" } } : done;
}

/**
 * Decides, once for a new deployment, where LangGraph.js projects that name no engine keep their state: on its PostgreSQL if it has
 * one, as every deployment in a cluster does. A deployment that scales to zero stays on files, because the engine on PostgreSQL
 * never sleeps in a cluster. A build takes files for a project whose packages do not work with that engine.
 */
async function defaultEngineOf({ store, databases }: DatabaseDeps, state: DeploymentState): Promise<"postgres" | null> {
  const given = await store.readDatabaseSettings(state.id);
  if (given === undefined) return null;
  const { deployment_type: type, resource_spec: spec, listener_id: listenerId } = given.source_config;
  if (effectiveSizes(type ?? null, spec ?? null, given.sizes ?? null).minReplicas === 0) return null;
  if (listenerId != null) return "postgres";
  const kinds = databases === null ? undefined : await store.findDatabaseKinds(state.id);
  if (kinds !== undefined && kinds.postgres !== "none") return "postgres";
  return (await readSecrets(store, state.id, given.secret_set_id))[customNames.postgres] ? "postgres" : null;
}

/** Why a revision cannot be used. */
export interface Refusal {
  message: string;
  /** When to retry; null: a retry would not help, or would come too late. */
  retryInMs: number | null;
}

/**
 * Checks before a revision is used that its databases exist, because Redis forgets its users when it restarts. A
 * deployment that brought its own database from the beginning must still do so.
 * @returns null when the revision can be used
 */
export async function checkDatabase(
  { store, logger, databases, outward }: DatabaseDeps,
  revision: RevisionRow,
  signal: AbortSignal,
): Promise<Refusal | null> {
  const deployment = { id: revision.deployment_id, tenantId: revision.tenant_id };
  if (databases === null) {
    const [lost] = lostServices(databases, await store.findDatabaseKinds(deployment.id));
    return lost === undefined ? null : { message: lost.problem, retryInMs: null };
  }
  const planned = await store.findDatabase(deployment);
  if (planned === undefined) return null;
  const secrets = await readSecrets(store, deployment.id, revision.secret_set_id);
  for (const service of services) {
    const name = customNames[service];
    if (planned[service] === "custom" && !secrets[name]) {
      const message = `This deployment has kept its data in the server that ${name} names since it was created. Set ${name} again: no database is created instead.`;
      return { message, retryInMs: null };
    }
  }
  try {
    await outward.hold(() => ensureAll(databases, deployment, planned, revision, signal));
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof DatabaseServerError)) throw error;
    logger.warn({ deployment_id: deployment.id, error: describeError(error) }, "a database could not be provisioned");
    const failure = { reason: describeError(error), isFinal: error.isFinal };
    const deadlineMs = revision.deadline_at?.getTime() ?? Number.POSITIVE_INFINITY;
    const isLast = failure.isFinal || deadlineMs - store.now().getTime() <= retryWhileWaitedForMs;
    return isLast
      ? { message: couldNotProvision(failure), retryInMs: null }
      : { message: notProvisionedYet(failure.reason), retryInMs: retryWhileWaitedForMs };
  }
}

/**
 * Checks before a build that a deployment has the databases of the engine that it chose. Only its configuration names another engine,
 * which the build reads. A cluster creates the databases itself.
 * @returns what is missing; null: nothing is
 */
export async function missingOfEngine(
  { store, databases }: Pick<DatabaseDeps, "store" | "databases">,
  { deployment_id: id, secret_set_id: setId, source_config: config }: RevisionRow,
): Promise<string | null> {
  const { engine, listener_id: listenerId } = config;
  if ((engine !== "postgres" && engine !== "aegra") || listenerId != null) return null;
  const secrets = await readSecrets(store, id, setId);
  const kinds = databases === null ? undefined : await store.findDatabaseKinds(id);
  const needed = engine === "aegra" ? services : (["postgres"] as const);
  const missing = needed.find((service) => {
    const isGiven = secrets[customNames[service]] || secrets[givenNames[service]];
    return !isGiven && (kinds?.[service] ?? "none") === "none";
  });
  if (missing === undefined) return null;
  return `${engineLacks(engine, missing === "postgres" ? "POSTGRES" : "REDIS")}.`;
}

/** Variables by which an agent server finds its databases. A deployment may set them itself. */
const givenNames = { postgres: "DATABASE_URI", redis: "REDIS_URI" } as const;

/**
 * Drops the databases that were created for a deployment. Databases that it brought itself are not touched.
 * @returns for people to read: what is left behind because its server is no longer configured, or because a forced
 * delete did not wait for it
 * @throws DatabaseServerError when a server is away and the delete is not forced; the pass is retried
 */
export async function removeDatabases(
  deps: DatabaseDeps,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<string[]> {
  const { store, databases, logger } = deps;
  const kinds = await store.findDatabaseKinds(state.id);
  const name = databaseNameOf(state.id);
  const left = lostServices(databases, kinds).map(({ service }) => {
    const fields = { deployment_id: state.id, service, name };
    logger.warn(fields, "a delete left a database behind: its server is not configured");
    return `${name} in ${service}, which is no longer configured`;
  });
  if (databases === null) return left;
  return [...left, ...(await deps.outward.hold(() => dropAll(deps, { databases, kinds }, state, signal)))];
}

async function dropAll(
  { logger }: DatabaseDeps,
  { databases, kinds }: { databases: DatabaseServers; kinds: DatabaseKinds | undefined },
  state: DeploymentState,
  signal: AbortSignal,
): Promise<string[]> {
  const name = databaseNameOf(state.id);
  const left: string[] = [];
  for (const service of services) {
    try {
      await serverOf(databases, kinds, service)?.remove(name, signal);
    } catch (error) {
      if (!state.isDeleteForced || signal.aborted) throw error;
      const fields = { deployment_id: state.id, service, name, error: describeError(error) };
      logger.warn(fields, "a forced delete left a database behind");
      left.push(`${name} in ${service}: ${describeError(error)}`);
    }
  }
  return left;
}

interface Failure {
  reason: string;
  /** A retry cannot help, so no revision has to wait for its deadline. */
  isFinal: boolean;
}

/** Creates missing databases, and returns why that failed this time; null: all of them exist. */
async function createDatabases(
  { store, logger, outward }: DatabaseDeps,
  databases: DatabaseServers,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<Failure | null> {
  try {
    // The first settings of a deployment decide about its databases.
    const settings = await store.readDatabaseSettings(state.id);
    const secrets = await readSecrets(store, state.id, settings?.secret_set_id ?? null);
    const kindOf = (service: Service): DatabaseKind =>
      secrets[customNames[service]] ? "custom" : newKind(databases, service, settings);
    const kinds = { postgres: kindOf("postgres"), redis: kindOf("redis") };
    if (kinds.postgres === "none" && kinds.redis === "none") return null;
    const planned = await store.planDatabase(state, kinds);
    await outward.hold(() => ensureAll(databases, state, planned, settings, signal));
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof NoFreeSlot) throw error;
    logger.warn({ deployment_id: state.id, error: describeError(error) }, "a database could not be provisioned");
    return { reason: describeError(error), isFinal: error instanceof DatabaseServerError && error.isFinal };
  }
}

const notProvisionedYet = (reason: string) => `the database is not provisioned yet: ${reason}`;
const couldNotProvision = ({ reason, isFinal }: Failure) =>
  `The database could not be provisioned${isFinal ? "" : " in time"}: ${reason}`;

/** Containers run in the engine of this server, so only agents of the built-in listener get them. */
function newKind(
  databases: DatabaseServers,
  service: Service,
  settings: DatabaseSettingsRow | undefined,
): DatabaseKind {
  const isBuiltin = settings?.source_config.listener_id == null;
  if (databases.areContainersWanted && isBuiltin) return "container";
  return databases.shared[service] === null ? "none" : "shared";
}

/** Fails the revisions that waited too long, with the reason. The deployment itself is retried for as long as it exists. */
async function failLateRevisions(store: ReconcilerStore, state: DeploymentState, failure: Failure): Promise<Performed> {
  const { reason, isFinal } = failure;
  const late = state.unsettled.filter(
    ({ deadlineAt }) => isFinal || (deadlineAt !== null && deadlineAt <= store.now()),
  );
  for (const revision of late) {
    if (revision.status !== "CREATING") continue;
    const move = {
      from: "CREATING",
      to: "CREATE_FAILED",
      because: isFinal ? "the database cannot be created" : "deadline",
    } as const;
    const message = couldNotProvision(failure);
    const at = { id: revision.id, deploymentId: state.id };
    const code = { failure: failureOf("database_unavailable") };
    if (await store.moveRevision(at, { ...move, ...code, message, deadlineAt: null })) recordMove(move);
  }
  const isWaitedFor = state.unsettled.length > late.length;
  return {
    kind: "later",
    retryInMs: isWaitedFor ? retryWhileWaitedForMs : retryMs,
    because: notProvisionedYet(reason),
    isProblem: true,
  };
}

async function ensureAll(
  databases: DatabaseServers,
  deployment: { id: string; tenantId: string },
  planned: DeploymentDatabase,
  settings: DatabaseSettingsRow | undefined,
  signal: AbortSignal,
): Promise<void> {
  const [lost] = lostServices(databases, planned);
  if (lost !== undefined) throw new DatabaseServerError(lost.problem, undefined, true);
  const credentials: DatabaseCredentials = { name: databaseNameOf(deployment.id), password: planned.password };
  for (const service of services) {
    if (planned[service] === "none" || planned[service] === "custom") continue;
    const spec = specOf(service, deployment.tenantId, settings);
    await serverOf(databases, planned, service)?.ensure(credentials, spec, signal);
  }
}

function specOf(service: Service, tenantId: string, settings: DatabaseSettingsRow | undefined): DatabaseSpec {
  const { deployment_type: type = null, resource_spec: spec = null } = settings?.source_config ?? {};
  const { database, redis } = effectiveSizes(type, spec, settings?.sizes ?? null);
  const { cpuLimitCores, memoryLimitMib } = service === "postgres" ? database : redis;
  return { tenantId, connectionsMax: database.connectionsMax, cpuLimitCores, memoryLimitMib };
}

function readSecrets(
  store: ReconcilerStore,
  deploymentId: string,
  secretSetId: string | null,
): Promise<Record<string, string>> {
  return secretSetId === null ? Promise.resolve({}) : store.readSecrets(deploymentId, secretSetId);
}
