import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { backoffMs } from "../../../base/backoff.ts";
import { describeError, type Logger } from "../../../telemetry/log.ts";
import { type ApiServer, KubeError } from "../api/api-server.ts";
import { pathOf } from "../api/kinds.ts";
import type { LiveObject } from "../api/manifest.ts";

export interface WatchEvent {
  type: "ADDED" | "MODIFIED" | "DELETED";
  object: LiveObject;
}

/** The server ends a watch after this time. A watch that is silent for longer is dead. */
const watchTimeoutS = 270;
const silenceMs = (watchTimeoutS + 30) * 1_000;
const shortestWatchMs = 1_000;
const retryBounds = { firstMs: 500, maxMs: 30_000 };

/**
 * Follows the objects of one kind in one namespace until `signal` aborts: lists them, watches from there, and lists again
 * when the position is lost. Failures are retried with back-off and never end the loop.
 */
export async function watchKind(
  api: ApiServer,
  what: { kind: string; namespace: string; labelSelector: string },
  options: {
    onEvent: (event: WatchEvent) => void;
    /** Called after each list, when all its objects were passed to `onEvent`. */
    onListed?: () => void;
    logger: Logger;
    signal: AbortSignal;
  },
): Promise<void> {
  const { onEvent, onListed, logger, signal } = options;
  let failures = 0;
  let resourceVersion: string | null = null;
  const known = new Map<string, LiveObject>();
  const notify = ({ type, object }: WatchEvent) => {
    if (type === "DELETED") known.delete(object.metadata.uid);
    else known.set(object.metadata.uid, identityOf(object));
    onEvent({ type, object });
  };
  while (!signal.aborted) {
    try {
      if (resourceVersion === null) {
        resourceVersion = await listAll(api, what, { known, notify }, signal);
        onListed?.();
      }
      for await (const event of follow(api, what, resourceVersion, signal)) {
        failures = 0;
        resourceVersion = event.object.metadata.resourceVersion;
        if (event.type !== "BOOKMARK") notify(event as WatchEvent);
      }
    } catch (error) {
      if (signal.aborted) return;
      // 410: the server has dropped the events since then. After 429 it still has them, and a list would add to its load.
      if (error instanceof KubeError && error.status !== 429) resourceVersion = null;
      failures += 1;
      if (failures === 3)
        logger.warn(
          { kind: what.kind, namespace: what.namespace, error: describeError(error) },
          "watching objects failed",
        );
      await sleep(Math.random() * backoffMs(failures + 1, retryBounds), undefined, { signal }).catch(() => {});
    }
  }
}

/** Reports objects in `known` that are no longer listed as deleted, because no watch saw their deletion. */
async function listAll(
  api: ApiServer,
  { kind, namespace, labelSelector }: { kind: string; namespace: string; labelSelector: string },
  { known, notify }: { known: Map<string, LiveObject>; notify: (event: WatchEvent) => void },
  signal: AbortSignal,
): Promise<string> {
  const { items, resourceVersion } = await api.list<LiveObject>(kind, namespace, { labelSelector }, signal);
  const listed = new Set(items.map(({ metadata }) => metadata.uid));
  for (const [uid, object] of known) if (!listed.has(uid)) notify({ type: "DELETED", object });
  for (const object of items) notify({ type: "ADDED", object: { ...object, kind } });
  return resourceVersion;
}

/** Keeps only what a later DELETED event needs. */
function identityOf({ apiVersion, kind, metadata }: LiveObject): LiveObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp, labels = {} } = metadata;
  return { apiVersion, kind, metadata: { name, namespace, uid, resourceVersion, creationTimestamp, labels } };
}

interface Raw {
  type: string;
  object: LiveObject & { code?: number; message?: string; reason?: string };
}

async function* follow(
  api: ApiServer,
  { kind, namespace, labelSelector }: { kind: string; namespace: string; labelSelector: string },
  resourceVersion: string,
  signal: AbortSignal,
): AsyncGenerator<Raw> {
  const beganAtMs = performance.now();
  let hasEvents = false;
  const silence = new AbortController();
  const abortSilent = () => silence.abort(new Error("the watch has gone silent"));
  let timer = setTimeout(abortSilent, silenceMs);
  const query = {
    watch: true,
    allowWatchBookmarks: true,
    timeoutSeconds: watchTimeoutS,
    resourceVersion,
    labelSelector,
  };
  const ending = AbortSignal.any([signal, silence.signal]);
  try {
    const answer = await api.open({
      method: "GET",
      path: pathOf(kind, namespace),
      query,
      signal: ending,
      timeoutMs: 0,
    });
    for await (const line of createInterface({ input: answer })) {
      clearTimeout(timer);
      timer = setTimeout(abortSilent, silenceMs);
      const event = JSON.parse(line) as Raw;
      if (event.type === "ERROR") throw new KubeError(event.object.code ?? 500, event.object);
      hasEvents = true;
      yield { ...event, object: { ...event.object, kind } };
    }
    // A proxy that cannot stream ends each watch at once without an error. Without this it would be retried in a tight loop.
    if (!hasEvents && performance.now() - beganAtMs < shortestWatchMs) throw new Error("the watch ended at once");
  } finally {
    clearTimeout(timer);
  }
}
