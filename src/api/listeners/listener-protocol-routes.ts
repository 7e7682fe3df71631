import { mintApiKey } from "../../auth/api-key.ts";
import { findListenerPrincipal } from "../../auth/principal.ts";
import { isDiskLow } from "../../base/disk-reserve.ts";
import { errors } from "../../contract/error.ts";
import type { DesiredPage, ListenerFacts, ReplicaLogLine } from "../../contract/listeners/assignment.ts";
import { operations } from "../../contract/operations.ts";
import { listenerHeartbeatMs, listenerKeyGraceMs, listenerLeaseMs } from "../../domain/limits.ts";
import { compareInventory, readDesired } from "../../store/data-plane/assignments.ts";
import {
  checkEpoch,
  closeListenerSession,
  openListenerSession,
  readListenerOrders,
  readListenerVersion,
  renewListenerSession,
} from "../../store/data-plane/listener-sessions.ts";
import { addMetricSamples } from "../../store/data-plane/metric-minutes.ts";
import { storeReports } from "../../store/data-plane/observations.ts";
import { enrollListener } from "../../store/data-plane/workspace-listeners.ts";
import { findWorkspacesOf } from "../../store/deployments/deployments.ts";
import type { Db } from "../../store/engine/database.ts";
import { appendReplicaLog } from "../../store/logs/log-entries.ts";
import { findSecretSet } from "../../store/secrets/secrets.ts";
import { tracingEnvironment } from "../deployments/langsmith-projects.ts";
import { credentialsOf } from "../http/authenticate.ts";
import { type Api, enrollmentRoute, listenerRoute } from "../http/route.ts";
import { streamHeaders, wantsStream } from "../http/server-sent-events.ts";
import { AssignmentNotifier } from "./assignment-notifier.ts";
import { type AssignmentSource, streamAssignments } from "./assignment-stream.ts";
import { addBuildRoutes } from "./build-routes.ts";
import { sessionOf } from "./listener-session.ts";
import { createTurns, type TurnsByKind } from "./listener-turns.ts";
import { LogRates } from "./log-rates.ts";
import { addTunnelRoutes } from "./tunnel-routes.ts";

const protocolsSpoken = [1];

/** Samples in one statement. All others wait for it on the embedded database, where a thousand took 150 ms. */
const samplesAtOnce: Record<Db["kind"], number> = { embedded: 100, postgres: 1_000 };

/** Assignments per page: 500 of about 2 KiB are 1 MiB. */
const pageMax = 500;

/**
 * Adds the `/dp/v1` routes of the listener protocol (contract/assignment.ts). The epoch fences every call but the
 * first.
 */
export function addListenerProtocol(api: Api): void {
  const turns = createTurns(api.deps.listenerId);
  addSessionRoutes(api, turns);
  addDesiredRoutes(api, turns);
  addReportRoutes(api, turns);
  addBuildRoutes(api, turns);
  addTunnelRoutes(api, turns.calls);
}

function addSessionRoutes(api: Api, turns: TurnsByKind): void {
  const { db } = api.deps;

  enrollmentRoute(api, operations.enrollListener, async ({ principal }) => {
    const { listenerId, keyId, actor } = principal;
    const key = mintApiKey();
    await enrollListener(db, { tokenId: keyId, actor }, { key, graceMs: listenerKeyGraceMs });
    api.keyring.forget();
    return { listener_id: listenerId, listener_key: key.key };
  });

  listenerRoute(api, operations.openListenerSession, async ({ principal, body, signal }) => {
    if (!body.protocols.some((one) => protocolsSpoken.includes(one))) throw errors.protocolUnknown(protocolsSpoken);
    const opening = { instanceId: body.instance_id, version: body.version, facts: factsOf(body) };
    const session = await turns.sessions.take(
      principal.listenerId,
      () => openListenerSession(db, principal.listenerId, { ...opening, leaseMs: listenerLeaseMs }),
      signal,
    );
    return {
      session_id: session.sessionId,
      listener_id: session.listenerId,
      epoch: session.epoch,
      protocol: 1,
      heartbeat_s: listenerHeartbeatMs / 1_000,
      lease_ttl_s: listenerLeaseMs / 1_000,
    };
  });

  listenerRoute(api, operations.closeListenerSession, async ({ principal, request, signal }) => {
    const session = sessionOf(principal, request);
    await turns.sessions.take(session.listenerId, () => closeListenerSession(db, session), signal);
    return undefined;
  });

  listenerRoute(api, operations.sendHeartbeat, async ({ principal, request, signal }) => {
    const session = sessionOf(principal, request);
    const renew = async () => {
      await renewListenerSession(db, session, listenerLeaseMs);
      return readListenerOrders(db, session.listenerId);
    };
    const orders = await turns.sessions.take(session.listenerId, renew, signal);
    return { ...orders, key_ends_at: principal.keyEndsAt?.toISOString() ?? null };
  });
}

function addDesiredRoutes(api: Api, turns: TurnsByKind): void {
  const { db, sealer } = api.deps;
  const notifier = new AssignmentNotifier(db);

  listenerRoute(api, operations.getDesired, async ({ principal, request, query, signal, takeOver }) => {
    const session = sessionOf(principal, request);
    const { listenerId } = session;
    const inTurn = <T>(act: () => Promise<T>) => turns.calls.take(listenerId, act, signal);
    await inTurn(async () => {
      await checkEpoch(db, session);
      // A cursor from the future: this database was restored from a backup that is older than the listener's state.
      if (query.after > (await readListenerVersion(db, listenerId))) throw errors.desiredGone();
    });
    // A long poll outlives its authentication, so an expired or revoked key must not read more or renew the session.
    const checkKey = () => findListenerPrincipal(api.keyring, credentialsOf(request.headers));
    const read = async (after: number) => {
      const page = await inTurn(() => readDesired(db, listenerId, { after, limit: pageMax }));
      await checkKey();
      return page;
    };
    const wait: AssignmentSource["wait"] = (after, maxMs) => notifier.wait({ listenerId, after }, signal, maxMs);
    if (!wantsStream(request)) return waitForDesired({ read, wait }, query, signal);
    const renew = async (after: number) => {
      await checkKey();
      const newest = await inTurn(() => renewListenerSession(db, session, listenerLeaseMs));
      if (after > newest) throw errors.desiredGone();
    };
    const source: AssignmentSource = { read, wait, renew };
    await streamAssignments(takeOver(streamHeaders), source, { after: query.after, signal });
    return { items: [], rv: query.after, more: false };
  });

  listenerRoute(api, operations.getSecretValues, async ({ principal, request, params, query, signal }) => {
    const session = sessionOf(principal, request);
    const { listenerId } = session;
    const key = { listenerId, deploymentId: params.deployment_id, secretSetId: query.secret_set_id };
    const [, found] = await turns.calls.take(
      listenerId,
      () => Promise.all([checkEpoch(db, session), findSecretSet(db, sealer, key)]),
      signal,
    );
    if (found === undefined) throw errors.secretSetNotFound(query.secret_set_id);
    const { tenantId, values } = found;
    const injected = await api.deps.databaseEnvironment({ id: params.deployment_id, tenantId }, values);
    const tracing = await tracingEnvironment(api.deps, params.deployment_id, values);
    return { values: { ...values, ...tracing, ...injected } };
  });

  listenerRoute(api, operations.compareInventory, async ({ principal, request, body, signal }) => {
    const session = sessionOf(principal, request);
    await checkEpoch(db, session);
    const { unknown, isBehind, isAhead } = await turns.statuses.take(
      session.listenerId,
      () => compareInventory(db, session.listenerId, body),
      signal,
    );
    if (isAhead) throw errors.desiredGone();
    return { unknown, is_behind: isBehind };
  });
}

function addReportRoutes(api: Api, turns: TurnsByKind): void {
  const { db, settings } = api.deps;
  const rates = new LogRates(settings.logLinesPerS);

  listenerRoute(api, operations.reportStatus, async ({ principal, request, body, signal }) => {
    const session = sessionOf(principal, request);
    await checkEpoch(db, session);
    await turns.statuses.take(session.listenerId, () => storeReports(db, session, body.reports), signal);
    return undefined;
  });

  listenerRoute(api, operations.sendReplicaLogs, async ({ principal, request, body, signal }) => {
    const session = sessionOf(principal, request);
    await checkEpoch(db, session);
    await checkDisk(api);
    const append = async () => {
      const lines = settings.logLinesPerS === 0 ? body.lines : await withinRates(db, rates, { ...session, ...body });
      await appendReplicaLog(db, { listenerId: session.listenerId, lines, signal });
    };
    await turns.reports.take(session.listenerId, append, signal);
    return undefined;
  });

  listenerRoute(api, operations.sendMetrics, async ({ principal, request, body, signal }) => {
    const session = sessionOf(principal, request);
    await checkEpoch(db, session);
    await checkDisk(api);
    for (let from = 0; from < body.samples.length; from += samplesAtOnce[db.kind]) {
      const some = body.samples.slice(from, from + samplesAtOnce[db.kind]);
      await turns.reports.take(session.listenerId, () => addMetricSamples(db, session, some), signal);
    }
    return undefined;
  });
}

/** @throws ApiError 503 when only the database may still write. The listener keeps what it has and sends it again. */
async function checkDisk({ deps: { settings } }: Api): Promise<void> {
  if (await isDiskLow(settings.dataDir, { reserveMib: settings.diskReserveMib })) throw errors.diskFull();
}

/** Returns the lines within the rates of their workspaces. Lines of deployments that are not the listener's take no rate. */
async function withinRates(
  db: Db,
  rates: LogRates,
  { listenerId, lines }: { listenerId: string; lines: ReplicaLogLine[] },
): Promise<ReplicaLogLine[]> {
  const ids = new Set(lines.map((line) => line.deployment_id));
  const workspaces = await findWorkspacesOf(db, listenerId, [...ids]);
  const byWorkspace = Map.groupBy(lines, ({ deployment_id }) => workspaces.get(deployment_id));
  return [...byWorkspace].flatMap(([id, some]) => (id === undefined ? [] : rates.admit(id, some)));
}

/** Returns a page as soon as it has items, or an empty one when the wait is over. */
async function waitForDesired(
  source: Pick<AssignmentSource, "read" | "wait">,
  query: { after: number; wait: number },
  signal: AbortSignal,
): Promise<DesiredPage> {
  const end = performance.now() + query.wait * 1_000;
  for (;;) {
    const wake = source.wait(query.after, Math.max(0, end - performance.now()));
    const page = await source.read(query.after).catch((error: unknown) => {
      wake.cancel();
      throw error;
    });
    if (page.items.length > 0 || performance.now() >= end || signal.aborted) {
      wake.cancel();
      return page;
    }
    await wake.came;
  }
}

function factsOf({ agents_url, capabilities, engine_version, image_registry }: ListenerFacts): ListenerFacts {
  return JSON.parse(JSON.stringify({ agents_url, capabilities, engine_version, image_registry }));
}
