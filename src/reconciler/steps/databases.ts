import { sql } from "kysely";
import { effectiveSizes } from "../../domain/sizes.ts";
import {
  type DatabaseCredentials,
  type DatabaseServer,
  DatabaseServerError,
  type DatabaseSpec,
  databaseNameOf,
} from "../../provision/database-server.ts";
import {
  type DatabaseKind,
  type DeploymentDatabase,
  findDatabaseKinds,
  findDeploymentDatabase,
  planDeploymentDatabase,
} from "../../store/deployments/deployment-databases.ts";
import { moveDeployment } from "../../store/deployments/deployments.ts";
import type { Db } from "../../store/engine/database.ts";
import { moveRevision, type RevisionRow } from "../../store/revisions/revisions.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import { findSecretSet } from "../../store/secrets/secrets.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ReconcilerDeps } from "../deps.ts";
import { noteMove } from "../loop/pass-span.ts";
import type { DeploymentState } from "../plan/state.ts";
import { NoPlace } from "../slots.ts";
import type { Performed } from "./perform.ts";

/** Where deployments get databases of their own, by the kind that was decided for each when it was new. */
export interface DatabaseServers {
  /** Servers of the operator's; null: none is configured. */
  shared: Record<Service, DatabaseServer | null>;
  /** A container for each; null: no container engine. */
  container: Record<Service, DatabaseServer> | null;
  /** New deployments of the built-in listener get containers. */
  areContainersWanted: boolean;
  sealer: Sealer;
}

type Service = "postgres" | "redis";
type DatabaseKinds = Pick<DeploymentDatabase, Service>;
const services: readonly Service[] = ["postgres", "redis"];

/** With these among its secrets a deployment brings its own: nothing is created, nothing is ever deleted (contract 4.6). */
const customNames = { postgres: "POSTGRES_URI_CUSTOM", redis: "REDIS_URI_CUSTOM" } as const;

const retryWhileWaitedForMs = 2_000;
const retryMs = 30_000;

/** AWAITING_DATABASE -> READY: makes the deployment's databases, however often it has to be tried. */
export async function provisionDatabase(
  deps: ReconcilerDeps,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<Performed> {
  const { db, databases } = deps;
  if (databases !== null) {
    const failure = await tryEnsure(deps, databases, state, signal);
    if (failure !== null) return refuseLate(db, state, failure);
  }
  const isMoved = await moveDeployment(db, state.id, { from: "AWAITING_DATABASE", to: "READY", byPass: true });
  db.reached("database provisioned");
  return isMoved ? { kind: "done", state: { ...state, status: "READY" } } : { kind: "done" };
}

/** Why a revision cannot be used. */
export interface Refusal {
  message: string;
  /** When to try again; null: it will not help, or would be too late. */
  retryInMs: number | null;
}

/**
 * Before a revision is used: its databases are there (Redis forgets its users when it restarts), and it brings its own
 * if its deployment did so from the beginning.
 * @returns null when it can be used.
 */
export async function checkDatabase(
  { db, logger, databases, outward }: ReconcilerDeps,
  revision: RevisionRow,
  signal: AbortSignal,
): Promise<Refusal | null> {
  const deployment = { id: revision.deployment_id, tenantId: revision.tenant_id };
  if (databases === null) {
    const [lost] = lostServices(databases, await findDatabaseKinds(db, deployment.id));
    return lost === undefined ? null : { message: lost.problem, retryInMs: null };
  }
  const decided = await findDeploymentDatabase(db, databases.sealer, deployment);
  if (decided === undefined) return null;
  const secrets = await secretsOf(db, databases.sealer, deployment.id, revision.secret_set_id);
  for (const service of services) {
    const name = customNames[service];
    if (decided[service] === "custom" && !secrets[name]) {
      const message = `This deployment keeps its data where ${name} led when it was created. Set ${name} again: no database is created instead.`;
      return { message, retryInMs: null };
    }
  }
  try {
    await outward.hold(() => ensureAll(databases, deployment, decided, revision, signal));
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof DatabaseServerError)) throw error;
    logger.warn({ deployment_id: deployment.id, error: describeError(error) }, "a database could not be provisioned");
    const [reason, { isFinal }] = [describeError(error), error];
    const giveUpAt = revision.deadline_at?.getTime() ?? Number.POSITIVE_INFINITY;
    const isLast = isFinal || giveUpAt - db.now().getTime() <= retryWhileWaitedForMs;
    return isLast
      ? { message: couldNot({ reason, isFinal }), retryInMs: null }
      : { message: notYet(reason), retryInMs: retryWhileWaitedForMs };
  }
}

/**
 * Drops what was made for a deployment; what it brought itself is not touched.
 * @returns what is left behind, as a person may read it: its server is no longer configured, or a forced delete did not wait for it.
 * @throws DatabaseServerError when a server is away: tried again, unless the delete is forced.
 */
export async function removeDatabases(
  deps: ReconcilerDeps,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<string[]> {
  const { db, databases, logger } = deps;
  const kinds = await findDatabaseKinds(db, state.id);
  const name = databaseNameOf(state.id);
  const left = lostServices(databases, kinds).map(({ service }) => {
    logger.warn(
      { deployment_id: state.id, service, name },
      "a delete left a database behind: its server is not configured",
    );
    return `${name} in ${service}, which is no longer configured`;
  });
  if (databases === null) return left;
  return [...left, ...(await deps.outward.hold(() => drop(deps, { databases, kinds }, state, signal)))];
}

async function drop(
  { logger }: ReconcilerDeps,
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
      logger.warn(
        { deployment_id: state.id, service, name, error: describeError(error) },
        "a forced delete left a database behind",
      );
      left.push(`${name} in ${service}: ${describeError(error)}`);
    }
  }
  return left;
}

/** What was made for a deployment on servers that are no longer configured. */
function lostServices(
  databases: DatabaseServers | null,
  kinds: DatabaseKinds | undefined,
): { service: Service; problem: string }[] {
  return services.flatMap((service) => {
    const kind = kinds?.[service];
    const isMade = kind === "shared" || kind === "container";
    if (!isMade || (databases !== null && serverOf(databases, kinds, service) !== undefined)) return [];
    const setting = kind === "shared" ? `PIERHEAD_AGENT_${service.toUpperCase()}_URL` : "PIERHEAD_COMPUTE=docker";
    const problem = `This deployment keeps data in ${service} of this installation, which is no longer configured. The operator has to set ${setting} again.`;
    return [{ service, problem }];
  });
}

/** What an agent server finds its databases by (contract 7.2): those it brings itself, or those it was given. Secret. */
export async function databaseEnvironment(
  db: Db,
  databases: DatabaseServers | null,
  deployment: { id: string; tenantId: string },
  secrets: Record<string, string>,
): Promise<Record<string, string>> {
  const { POSTGRES_URI_CUSTOM: postgres, REDIS_URI_CUSTOM: redis } = secrets;
  const decided = databases === null ? undefined : await findDeploymentDatabase(db, databases.sealer, deployment);
  const credentials = { name: databaseNameOf(deployment.id), password: decided?.password ?? "" };
  const given = (service: Service) =>
    databases === null ? undefined : serverOf(databases, decided, service)?.environment(credentials);
  return {
    ...(postgres ? { DATABASE_URI: postgres, POSTGRES_URI: postgres } : given("postgres")),
    ...(redis ? { REDIS_URI: redis } : given("redis")),
  };
}

/** @returns why it did not work this time; null: everything is there. */
async function tryEnsure(
  { db, logger, outward }: ReconcilerDeps,
  databases: DatabaseServers,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<Failure | null> {
  try {
    const first = await readFirst(db, state.id);
    const secrets = await secretsOf(db, databases.sealer, state.id, first?.secret_set_id ?? null);
    const kindOf = (service: Service): DatabaseKind =>
      secrets[customNames[service]] ? "custom" : newKind(databases, service, first);
    const kinds = { postgres: kindOf("postgres"), redis: kindOf("redis") };
    if (kinds.postgres === "none" && kinds.redis === "none") return null;
    const decided = await planDeploymentDatabase(db, databases.sealer, state, kinds);
    await outward.hold(() => ensureAll(databases, state, decided, first, signal));
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof NoPlace) throw error;
    logger.warn({ deployment_id: state.id, error: describeError(error) }, "a database could not be provisioned");
    return { reason: describeError(error), isFinal: error instanceof DatabaseServerError && error.isFinal };
  }
}

interface Failure {
  reason: string;
  /** Nobody has to wait for the deadline to learn it. */
  isFinal: boolean;
}

const notYet = (reason: string) => `the database is not there yet: ${reason}`;
const couldNot = ({ reason, isFinal }: Failure) =>
  `The database could not be provisioned${isFinal ? "" : " in time"}: ${reason}`;

/** Containers are in the engine of this server, so they are for the agents that run there. */
function newKind(databases: DatabaseServers, service: Service, first: SizedRow | undefined): DatabaseKind {
  const isHere = first?.source_config.listener_id == null;
  if (databases.areContainersWanted && isHere) return "container";
  return databases.shared[service] === null ? "none" : "shared";
}

function serverOf(
  databases: DatabaseServers,
  decided: DatabaseKinds | undefined,
  service: Service,
): DatabaseServer | undefined {
  const kind = decided?.[service];
  return kind === "shared" || kind === "container" ? (databases[kind]?.[service] ?? undefined) : undefined;
}

/** Tried again for as long as the deployment is there; a revision that waited too long fails with the reason. */
async function refuseLate(db: Db, state: DeploymentState, failure: Failure): Promise<Performed> {
  const { reason, isFinal } = failure;
  const late = state.unsettled.filter(({ deadlineAt }) => isFinal || (deadlineAt !== null && deadlineAt <= db.now()));
  for (const revision of late) {
    if (revision.status !== "CREATING") continue;
    const failed = {
      from: "CREATING",
      to: "CREATE_FAILED",
      because: isFinal ? "the database cannot be made" : "deadline",
    } as const;
    const message = couldNot(failure);
    const at = { id: revision.id, deploymentId: state.id };
    if (await moveRevision(db, at, { ...failed, message, deadlineAt: null })) noteMove(failed);
  }
  const isWaitedFor = state.unsettled.length > late.length;
  return {
    kind: "later",
    retryInMs: isWaitedFor ? retryWhileWaitedForMs : retryMs,
    because: notYet(reason),
  };
}

async function ensureAll(
  databases: DatabaseServers,
  deployment: { id: string; tenantId: string },
  decided: DeploymentDatabase,
  row: SizedRow | undefined,
  signal: AbortSignal,
): Promise<void> {
  const [lost] = lostServices(databases, decided);
  if (lost !== undefined) throw new DatabaseServerError(lost.problem, undefined, true);
  const credentials: DatabaseCredentials = { name: databaseNameOf(deployment.id), password: decided.password };
  for (const service of services) {
    if (decided[service] === "none" || decided[service] === "custom") continue;
    await serverOf(databases, decided, service)?.ensure(credentials, specOf(service, deployment.tenantId, row), signal);
  }
}

interface SizedRow extends Pick<RevisionRow, "source_config" | "secret_set_id"> {
  sizes?: RevisionRow["sizes"];
}

function specOf(service: Service, tenantId: string, row: SizedRow | undefined): DatabaseSpec {
  const { deployment_type: type = null, resource_spec: spec = null } = row?.source_config ?? {};
  const { database, redis } = effectiveSizes(type, spec, row?.sizes ?? null);
  const { cpuLimitCores, memoryLimitMib } = service === "postgres" ? database : redis;
  return { tenantId, connectionsMax: database.connectionsMax, cpuLimitCores, memoryLimitMib };
}

/** The first settings a deployment had decide about its databases. */
async function readFirst(db: Db, deploymentId: string): Promise<SizedRow | undefined> {
  const { rows } = await sql<SizedRow>`
    select d.source_config, d.secret_set_id, r.sizes
      from deployments d left join revisions r on r.id = d.latest_revision_id
     where d.id = ${deploymentId}`.execute(db.kysely);
  return rows[0];
}

async function secretsOf(
  db: Db,
  sealer: Sealer,
  deploymentId: string,
  secretSetId: string | null,
): Promise<Record<string, string>> {
  if (secretSetId === null) return {};
  return (await findSecretSet(db, sealer, { listenerId: null, deploymentId, secretSetId }))?.values ?? {};
}
