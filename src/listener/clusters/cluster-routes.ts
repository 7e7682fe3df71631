import { isDeepStrictEqual } from "node:util";
import { backoffMs } from "../../base/backoff.ts";
import { sleep, systemClock } from "../../base/clock.ts";
import { type ApiServer, KubeError } from "../../compute/kubernetes/api/api-server.ts";
import type { LiveObject } from "../../compute/kubernetes/api/manifest.ts";
import { wake } from "../../compute/kubernetes/apply/sleep.ts";
import { managedText } from "../../compute/kubernetes/render/render.ts";
import { type WatchEvent, watchKind } from "../../compute/kubernetes/watch/watch.ts";
import type { Route, Traffic } from "../../gateway/route.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { isUp, planClusterRoute, type ServerView, type ServingObjects, type SliceView } from "./route-table.ts";

const followedKinds = ["Service", "EndpointSlice", "Deployment"] as const;

const wakeTimeoutMs = 10_000;
const wakeRetry = { firstMs: 250, maxMs: 5_000 };

export interface ClusterRoutesOptions {
  api: ApiServer;
  /** Namespaces of agents. */
  namespaces: string[];
  traffic: Pick<Traffic, "setRoute" | "removeRoute" | "onWake">;
  logger: Logger;
}

/** The objects of one deployment, and the route that was set for them. */
interface Member {
  namespace: string;
  name: string;
  service: LiveObject | null;
  server: (LiveObject & ServerView) | null;
  slices: Map<string, SliceView>;
  downSinceMs: number | null;
  route: Route | null;
  timer: NodeJS.Timeout | undefined;
  /** Since when it has a route. */
  routedSinceMs: number | null;
  isWaking: boolean;
}

/**
 * Sets the routes of a gateway from the Services, EndpointSlices and Deployments of a cluster, and wakes sleeping deployments there.
 * Needs no control plane: pods get requests as soon as the cluster calls them ready.
 */
export class ClusterRoutes {
  readonly #options: ClusterRoutesOptions;
  readonly #life = new AbortController();
  readonly #members = new Map<string, Member>();
  readonly #unlisted = new Set<string>();

  constructor(options: ClusterRoutesOptions) {
    this.#options = options;
    for (const namespace of options.namespaces) {
      for (const kind of followedKinds) this.#unlisted.add(`${namespace}/${kind}`);
    }
    options.traffic.onWake((deploymentId) => void this.#wake(deploymentId));
  }

  /** Whether every object was listed once, so that no deployment is unknown. */
  get isListed(): boolean {
    return this.#unlisted.size === 0;
  }

  /** Returns how long this gateway has had a route to a deployment, in milliseconds. Null: it has none. */
  routedForMs(deploymentId: string): number | null {
    const sinceMs = this.#memberOf(deploymentId)?.routedSinceMs ?? null;
    return sinceMs === null ? null : performance.now() - sinceMs;
  }

  /** Whether requests of a deployment go to at least one ready pod. */
  isOpen(deploymentId: string): boolean {
    return this.#memberOf(deploymentId)?.route?.state === "open";
  }

  start(): void {
    const { api, namespaces, logger } = this.#options;
    const { signal } = this.#life;
    for (const namespace of namespaces) {
      for (const kind of followedKinds) {
        void watchKind(
          api,
          { kind, namespace, labelSelector: managedText },
          {
            onEvent: (event) => this.#handleEvent(kind, event),
            onListed: () => void this.#unlisted.delete(`${namespace}/${kind}`),
            logger,
            signal,
          },
        );
      }
    }
  }

  close(): void {
    this.#life.abort(new Error("the gateway closes"));
    for (const { timer } of this.#members.values()) clearTimeout(timer);
  }

  #handleEvent(kind: (typeof followedKinds)[number], { type, object }: WatchEvent): void {
    const { namespace, name, labels } = object.metadata;
    const isGone = type === "DELETED";
    const member = this.#member(namespace, kind === "EndpointSlice" ? (labels?.[serviceLabel] ?? name) : name);
    if (kind === "Service") member.service = isGone ? null : object;
    else if (kind === "Deployment") member.server = isGone ? null : (object as Member["server"]);
    else if (isGone) member.slices.delete(name);
    else member.slices.set(name, object as unknown as SliceView);
    this.#update(member);
  }

  /** Objects of a deployment carry its name, and slices the name of their Service. */
  #member(namespace: string, name: string): Member {
    const key = `${namespace}/${name}`;
    const known = this.#members.get(key);
    if (known !== undefined) return known;
    const objects = { service: null, server: null, slices: new Map(), downSinceMs: null };
    const member: Member = {
      namespace,
      name,
      ...objects,
      route: null,
      timer: undefined,
      routedSinceMs: null,
      isWaking: false,
    };
    this.#members.set(key, member);
    return member;
  }

  #update(member: Member): void {
    clearTimeout(member.timer);
    const nowMs = performance.now();
    const objects: ServingObjects = { ...member, slices: [...member.slices.values()] };
    member.downSinceMs = isUp(objects) ? null : (member.downSinceMs ?? nowMs);
    objects.downSinceMs = member.downSinceMs;
    const { route, untilMs } = planClusterRoute(objects, member.route, nowMs);
    this.#set(member, route);
    if (untilMs !== null) {
      member.timer = setTimeout(() => this.#update(member), untilMs - nowMs).unref();
    }
    const isEmpty = member.service === null && member.server === null && member.slices.size === 0;
    if (isEmpty) this.#members.delete(`${member.namespace}/${member.name}`);
  }

  #set(member: Member, route: Route | null): void {
    const before = member.route;
    member.route = route;
    member.routedSinceMs = route === null ? null : (member.routedSinceMs ?? performance.now());
    const { traffic } = this.#options;
    if (before !== null && before.slug !== route?.slug) this.#release(before.slug);
    // A sleeping route is set again, so that the gateway calls again for requests that still wait.
    if (route !== null && (route.state === "asleep" || !isDeepStrictEqual(before, route))) traffic.setRoute(route);
  }

  /** Removes a route, unless a deployment in another namespace has the name now: events of two namespaces come in any order. */
  #release(slug: string): void {
    const { traffic } = this.#options;
    const other = [...this.#members.values()].find(({ route }) => route?.slug === slug);
    if (other?.route == null) traffic.removeRoute(slug);
    else traffic.setRoute(other.route);
  }

  #memberOf(deploymentId: string): Member | undefined {
    return [...this.#members.values()].find(({ route }) => route?.deploymentId === deploymentId);
  }

  async #wake(deploymentId: string): Promise<void> {
    const member = this.#memberOf(deploymentId);
    if (member === undefined || member.isWaking) return;
    member.isWaking = true;
    const { api, logger } = this.#options;
    for (let failures = 1; this.#isAsleep(member); failures += 1) {
      const { namespace, name } = member;
      const { resourceVersion } = (member.server as LiveObject).metadata;
      const signal = AbortSignal.any([this.#life.signal, AbortSignal.timeout(wakeTimeoutMs)]);
      try {
        await wake(api, { namespace, name, resourceVersion }, signal);
        logger.info({ deployment_id: deploymentId }, "deployment woken");
        break;
      } catch (error) {
        // Another replica of the gateway was faster, or the status changed: the watch brings the next version.
        const isStale = error instanceof KubeError && error.status === 409;
        if (!isStale) {
          logger.warn({ deployment_id: deploymentId, error: describeError(error) }, "deployment could not be woken");
        }
        const delayMs = isStale ? wakeRetry.firstMs : backoffMs(failures, wakeRetry);
        await sleep(systemClock, delayMs, this.#life.signal).catch(() => {});
      }
    }
    member.isWaking = false;
  }

  #isAsleep({ route }: Member): boolean {
    return !this.#life.signal.aborted && route?.state === "asleep";
  }
}

const serviceLabel = "kubernetes.io/service-name";
