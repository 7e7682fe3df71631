import type { LiveObject } from "../../compute/kubernetes/api/manifest.ts";
import { asleepAnnotation, revisionAnnotation, routeAnnotation } from "../../compute/kubernetes/render/names.ts";
import type { ServiceRoute } from "../../compute/kubernetes/render/render-network.ts";
import type { CustomAddress, Route } from "../../gateway/route.ts";
import { downHeldMsMax } from "../replicas/plan-outcome.ts";

/** The parts of an EndpointSlice that a route needs. Source: https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/ */
export interface SliceView {
  metadata: Pick<LiveObject["metadata"], "name" | "labels">;
  endpoints?: {
    addresses: string[];
    conditions?: { ready?: boolean | null; serving?: boolean | null; terminating?: boolean | null };
    targetRef?: { name?: string };
  }[];
  ports?: { name?: string; port?: number }[];
}

export interface ServerView {
  metadata: Pick<LiveObject["metadata"], "annotations" | "generation" | "resourceVersion">;
  spec: { replicas?: number; template: { metadata: { annotations?: Record<string, string> } } };
  status?: { observedGeneration?: number; replicas?: number; updatedReplicas?: number };
}

/** The objects of one deployment, as the cluster last described them. */
export interface ServingObjects {
  service: { metadata: Pick<LiveObject["metadata"], "annotations"> & { creationTimestamp?: string } } | null;
  server: ServerView | null;
  slices: SliceView[];
  /** Since when it has no replica that could answer. Null: it has one. */
  downSinceMs: number | null;
}

/** A route, and how long it stays as it is when nothing changes. Null: there is none. */
export interface PlannedRoute {
  route: Route | null;
  untilMs: number | null;
}

/** Returns where requests of a deployment go, from the objects of its cluster. Pure. */
export function planClusterRoute(objects: ServingObjects, before: Route | null, nowMs: number): PlannedRoute {
  const found = readServiceRoute(objects);
  if (found === null) return { route: null, untilMs: null };
  const { server, slices, downSinceMs } = objects;
  const { slug, deployment_id: deploymentId, workspace_id: workspaceId, admission } = found;
  const to = (state: Route["state"], because: string | null, targets: Route["targets"] = []): PlannedRoute => {
    const revisionId = revisionOf(server) ?? before?.revisionId ?? null;
    const route: Route = { slug, deploymentId, workspaceId, revisionId, targets, state, because };
    const custom = customAddressOf(found, objects);
    if (custom !== null) route.custom = custom;
    if (admission !== undefined) route.admission = { workspaceId: admission.workspace_id };
    return { route, untilMs: null };
  };
  const targets = targetsOf(slices);
  // Its last pods are terminating: requests wait for a new one.
  const isAsleep = server?.spec.replicas === 0 && server.metadata.annotations?.[asleepAnnotation] !== undefined;
  if (isAsleep) return to("asleep", null);
  if (targets.length > 0) return to("open", null, targets);
  if (server === null) return to("closed", "No revision of this deployment is running.");
  if (server.spec.replicas === 0) return to("closed", "The deployment is scaled to zero in the cluster.");
  // Woken: each request waits for as long as the gateway lets it.
  if (server.metadata.annotations?.[asleepAnnotation] !== undefined) return to("held", null);
  const untilMs = (downSinceMs ?? nowMs) + downHeldMsMax;
  if (nowMs < untilMs) return { ...to("held", null), untilMs };
  return to("closed", "The agent server is not running or not ready.");
}

function customAddressOf(
  { custom_url: url }: ServiceRoute,
  { service }: Pick<ServingObjects, "service">,
): CustomAddress | null {
  if (url === undefined || !URL.canParse(url)) return null;
  const { hostname: host, pathname } = new URL(url);
  const sinceMs = Date.parse(service?.metadata.creationTimestamp ?? "") || 0;
  return { host, path: pathname.replace(/\/+$/, ""), sinceMs };
}

/** Whether any replica can answer. */
export const isUp = ({ slices }: Pick<ServingObjects, "slices">): boolean => targetsOf(slices).length > 0;

function readServiceRoute({ service }: Pick<ServingObjects, "service">): ServiceRoute | null {
  const text = service?.metadata.annotations?.[routeAnnotation];
  if (text === undefined) return null;
  try {
    return JSON.parse(text) as ServiceRoute;
  } catch {
    return null;
  }
}

/**
 * Returns the ready replicas, or else those that end but still answer, as the cluster's own proxy does. Sorted, because slices have
 * no order.
 */
function targetsOf(slices: SliceView[]): Route["targets"] {
  const all = slices.flatMap(({ endpoints = [], ports = [] }) => {
    const port = ports.find(({ name }) => name === "http")?.port;
    if (port === undefined) return [];
    return endpoints.flatMap(({ addresses: [host], conditions = {}, targetRef }) => {
      if (host === undefined) return [];
      const { terminating } = conditions;
      // Absent means yes, by the API's own definition.
      const isReady = (conditions.ready ?? true) && terminating !== true;
      const isServing = conditions.serving ?? isReady;
      return [{ isReady, isServing, target: { replicaId: targetRef?.name ?? host, host, port } }];
    });
  });
  const ready = all.filter(({ isReady }) => isReady);
  const chosen = ready.length > 0 ? ready : all.filter(({ isServing }) => isServing);
  const byId = new Map(chosen.map(({ target }) => [target.replicaId, target]));
  return [...byId.values()].toSorted((a, b) => (a.replicaId < b.replicaId ? -1 : 1));
}

/** Returns the revision that all replicas run, or null during a rollout. */
function revisionOf(server: ServerView | null): string | null {
  if (server === null) return null;
  const { metadata, spec, status = {} } = server;
  const isSettled =
    (status.observedGeneration ?? 0) >= (metadata.generation ?? 0) && status.replicas === status.updatedReplicas;
  return isSettled ? (spec.template.metadata.annotations?.[revisionAnnotation] ?? null) : null;
}
