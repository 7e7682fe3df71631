import { mintApiKey } from "../../auth/api-key.ts";
import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import type { Listener, ListenerStatus } from "../../contract/listeners/listener.ts";
import { operations } from "../../contract/operations.ts";
import { enrollmentMs, listenerKeyGraceMs } from "../../domain/limits.ts";
import { checkLabels } from "../../domain/listener-labels.ts";
import { checkNamespaces } from "../../domain/listener-namespaces.ts";
import { mayHaveListeners } from "../../domain/mode.ts";
import {
  changeListener,
  createEnrollment,
  createListener,
  deleteListener,
  findListener,
  type ListenerRow,
  listListeners,
  replaceListenerKey,
} from "../../store/data-plane/workspace-listeners.ts";
import { type Api, route } from "../http/route.ts";

/** Adds the routes of a workspace's listeners: L1 to L5 (contract 3.5), and of the keys that their programs use. */
export function addListenerRoutes(api: Api): void {
  const { db } = api.deps;

  route(api, operations.listListeners, async ({ principal, query }) => {
    await checkPlan(api, principal);
    const rows = await listListeners(db, principal.tenantId, query);
    return { resources: rows.map((row) => listenerOf(row, db.now())), offset: query.offset + rows.length };
  });

  route(api, operations.createListener, async ({ principal, body }) => {
    await checkPlan(api, principal);
    const key = mintApiKey();
    const row = await createListener(db, principal, {
      computeId: body.compute_id,
      k8sNamespaces: namespacesIn(body),
      labels: checkLabels("labels", body.labels ?? {}),
      version: body.version ?? null,
      key,
    });
    return { ...listenerOf(row, db.now()), listener_key: key.key };
  });

  route(api, operations.getListener, async ({ principal, params }) => {
    await checkPlan(api, principal);
    const row = await findListener(db, principal.tenantId, params.listener_id);
    if (row === undefined) throw errors.listenerNotFound(params.listener_id);
    return listenerOf(row, db.now());
  });

  route(api, operations.patchListener, async ({ principal, params, body }) => {
    await checkPlan(api, principal);
    const { version = null, drain = null, log_level: logLevel = null } = body;
    const labels = body.labels ? checkLabels("labels", body.labels) : null;
    const change = { version, drain, logLevel, labels, k8sNamespaces: namespacesIn(body) };
    return listenerOf(await changeListener(db, principal, params.listener_id, change), db.now());
  });

  route(api, operations.deleteListener, async ({ principal, params }) => {
    await checkPlan(api, principal);
    await deleteListener(db, principal, params.listener_id);
    db.afterCommit(api.keyring.forget);
  });

  route(api, operations.createEnrollment, async ({ principal, params }) => {
    await checkPlan(api, principal);
    const token = mintApiKey();
    const expiresAt = await createEnrollment(db, principal, params.listener_id, { token, lifeMs: enrollmentMs });
    return { enrollment_token: token.key, expires_at: expiresAt.toISOString() };
  });

  route(api, operations.replaceListenerKey, async ({ principal, params }) => {
    await checkPlan(api, principal);
    const key = mintApiKey();
    await replaceListenerKey(db, principal, params.listener_id, { key, graceMs: listenerKeyGraceMs });
    db.afterCommit(api.keyring.forget);
    return { listener_key: key.key };
  });
}

/** @throws ApiError 403 `listenersNotAllowed` where the organization's plan has no listeners. */
async function checkPlan({ keyring, deps }: Api, { tenantId }: Principal): Promise<void> {
  const workspace = await keyring.findWorkspace(tenantId);
  const isAllowed = workspace !== undefined && mayHaveListeners(deps.settings.mode, workspace.plan);
  if (!isAllowed) throw errors.listenersNotAllowed(tenantId);
}

function namespacesIn(body: {
  compute_config?: { k8s_namespaces?: string[] | null } | null | undefined;
}): string[] | null {
  const sent = body.compute_config?.k8s_namespaces ?? null;
  return sent === null ? null : checkNamespaces(sent);
}

function listenerOf(row: ListenerRow, now: Date): Listener {
  return {
    id: row.id,
    version: row.version,
    compute_type: "k8s",
    compute_id: row.compute_id,
    compute_config: { k8s_namespaces: row.k8s_namespaces },
    status: statusOf(row, now),
    last_seen_at: row.last_seen_at?.toISOString() ?? null,
    drain: row.drain,
    log_level: row.log_level,
    image_registry: row.image_registry,
    labels: row.labels,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

function statusOf({ last_seen_at: seenAt, lease_until: leaseUntil }: ListenerRow, now: Date): ListenerStatus {
  if (seenAt === null) return "NEW";
  return leaseUntil !== null && leaseUntil > now ? "CONNECTED" : "DISCONNECTED";
}
