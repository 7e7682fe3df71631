import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { isDiskLow } from "../../base/disk-reserve.ts";
import { pause } from "../../base/pause.ts";
import { errors } from "../../contract/error.ts";
import type { BuildOrder, BuildOrdersQuery } from "../../contract/listeners/build-order.ts";
import { knowsBuilds } from "../../contract/listeners/known-builds.ts";
import { operations } from "../../contract/operations.ts";
import { type BuildOrderRow, endBuildOrder, findBuildOrder, listBuildOrders } from "../../store/builds/build-orders.ts";
import { claimImageRemoval, endImageRemoval } from "../../store/builds/image-removals.ts";
import { checkEpoch } from "../../store/data-plane/listener-sessions.ts";
import { appendBuildLog } from "../../store/logs/log-entries.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import { isSignedText, signText } from "../../store/secrets/signature.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ApiDeps } from "../deps.ts";
import { type Api, listenerRoute, openRoute } from "../http/route.ts";
import { sessionOf } from "./listener-session.ts";
import type { TurnsByKind } from "./listener-turns.ts";

/** Interval at which a waiting listener's builds are compared. */
const pollMs = 500;

/**
 * Another server of this installation may have prepared the context, and no bucket has it. The builder then asks again on a new connection, which a
 * load balancer gives to another server. BuildKit follows ten redirects.
 */
const serversTriedMax = 9;

/** A builder that needs longer for one context does not finish it either. */
const longestDownloadMs = 3_600_000;

/** Adds the routes by which listeners build images in their clusters, and remove them from their registries. */
export function addBuildRoutes(api: Api, turns: TurnsByKind): void {
  const { db, sealer, settings } = api.deps;

  listenerRoute(api, operations.listBuildOrders, async ({ principal, request, query, signal }) => {
    const session = sessionOf(principal, request);
    const { listenerId } = session;
    const inTurn = <T>(act: () => Promise<T>) => turns.calls.take(listenerId, act, signal);
    await inTurn(() => checkEpoch(db, session));
    const orders = await waitForOrders(() => inTurn(() => listBuildOrders(db, listenerId)), query, signal);
    return { items: orders.map((order) => orderOf(order, sealer)) };
  });

  listenerRoute(api, operations.reportBuild, async ({ principal, request, body, signal }) => {
    const session = sessionOf(principal, request);
    const { listenerId } = session;
    const order = await turns.calls.take(
      listenerId,
      async () => {
        await checkEpoch(db, session);
        return findBuildOrder(db, body.build_id);
      },
      signal,
    );
    if (order === undefined || order.listener_id !== listenerId) return { is_wanted: false };
    const ids = { deployment_id: order.deployment_id, revision_id: order.revision_id };
    if (body.lines.length > 0 && (await isDiskLow(settings.dataDir, { reserveMib: settings.diskReserveMib })))
      throw errors.diskFull();
    await turns.reports.take(listenerId, () => appendBuildLog(db, { listenerId, lines: body.lines, ids }), signal);
    if (body.end !== null) await endBuildOrder(db, order.id, body.end);
    return { is_wanted: body.end === null };
  });

  listenerRoute(api, operations.claimImageRemoval, async ({ principal, request, body, signal }) => {
    const session = sessionOf(principal, request);
    const claim = async () => {
      await checkEpoch(db, session);
      if (body.ended !== null) await endImageRemoval(db, session.listenerId, body.ended);
      return claimImageRemoval(db, session.listenerId);
    };
    return { removal: await turns.calls.take(session.listenerId, claim, signal) };
  });

  addContextRoute(api);
}

/** The builder in the cluster has no key, so the URL itself is what permits the download, until the build ends. */
function addContextRoute(api: Api): void {
  const { db, sealer, settings } = api.deps;
  openRoute(api, operations.getBuildContext, async ({ params, query, takeOver, signal }) => {
    const signed = { id: params.build_id, expiresAt: new Date(query.expires_at) };
    const isValid = isSignedText(sealer, boundTo(signed), query.signature) && signed.expiresAt > db.now();
    const order = isValid ? await findBuildOrder(db, params.build_id) : undefined;
    const file = order && path.join(settings.dataDir, order.context_path);
    const size = file && (await stat(file).catch(() => undefined))?.size;
    const found =
      order === undefined || file === undefined
        ? undefined
        : size === undefined
          ? await openShared(api.deps, order, signal)
          : { content: createReadStream(file), sizeBytes: size };
    const tried = (query.tried ?? 0) + 1;
    if (order !== undefined && found === undefined && tried <= serversTriedMax) {
      const again = new URLSearchParams({ ...query, tried: String(tried) });
      takeOver({ location: `?${again}`, connection: "close" }, 307).end();
      return undefined;
    }
    if (found === undefined) throw errors.contextUrlInvalid();
    const headers = {
      "content-type": "application/x-tar",
      "content-length": String(found.sizeBytes),
      "cache-control": "no-store",
    };
    // A client that stops reading must not hold the file after the URL has expired.
    const leftMs = Math.min(signed.expiresAt.getTime() - db.now().getTime(), longestDownloadMs);
    const ending = AbortSignal.any([signal, AbortSignal.timeout(Math.max(0, leftMs))]);
    // A client that disconnects ends the stream. It may ask again.
    await pipeline(found.content, takeOver(headers), { signal: ending }).catch(() => {});
    return undefined;
  });
}

/** Opens the context that another server has put into the bucket; undefined: it is not there, or the bucket does not answer. */
async function openShared({ contexts, logger }: ApiDeps, order: BuildOrderRow, signal: AbortSignal) {
  const key = { deploymentId: order.deployment_id, orderId: order.id };
  return contexts?.open(key, signal).catch((error: unknown) => {
    logger.warn({ build_id: order.id, error: describeError(error) }, "build context could not be read");
    return undefined;
  });
}

/** Returns the builds as soon as they differ from those that the listener knows, or when the wait is over. */
async function waitForOrders(
  list: () => Promise<BuildOrderRow[]>,
  { wait, known = "" }: BuildOrdersQuery,
  signal: AbortSignal,
): Promise<BuildOrderRow[]> {
  const end = performance.now() + wait * 1_000;
  for (;;) {
    const orders = await list();
    const ids = orders.map(({ id }) => id);
    if (!knowsBuilds(known, ids) || performance.now() >= end || signal.aborted) return orders;
    await pause(pollMs, signal);
  }
}

function orderOf({ id, deployment_id, spec, expires_at: expiresAt }: BuildOrderRow, sealer: Sealer): BuildOrder {
  const query = new URLSearchParams({
    expires_at: expiresAt.toISOString(),
    signature: signText(sealer, boundTo({ id, expiresAt })),
  });
  return {
    build_id: id,
    deployment_id,
    tag: spec.tag,
    dockerfile: spec.dockerfile,
    context_path: `/build-contexts/${id}?${query}`,
    timeout_s: spec.timeoutS,
    disk_bytes_max: spec.diskBytesMax,
  };
}

const boundTo = ({ id, expiresAt }: { id: string; expiresAt: Date }) => `build-context/${id}/${expiresAt.getTime()}`;
