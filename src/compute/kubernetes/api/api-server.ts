import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { awaitUpgrade } from "../../../base/await-upgrade.ts";
import { readText } from "../../../base/read-text.ts";
import { pathOf } from "./kinds.ts";
import type { Manifest } from "./manifest.ts";

/** An error answer of the API server. */
export class KubeError extends Error {
  override name = "KubeError";
  readonly status: number;
  /** For example `AlreadyExists`, `Conflict`, `Invalid`, `Forbidden`. */
  readonly reason: string;
  /** Fields that were rejected, or that another manager owns. */
  readonly fields: string[];
  /** The server did nothing and asks for a retry after this time; null: no retry requested. */
  readonly retryAfterMs: number | null;

  constructor(
    status: number,
    answer: { reason?: string; message?: string; details?: { causes?: { field?: string }[] } },
    retryAfterMs: number | null = null,
  ) {
    super(answer.message ?? `the API server answered ${status}`);
    this.status = status;
    this.reason = answer.reason ?? "";
    this.retryAfterMs = retryAfterMs;
    this.fields = (answer.details?.causes ?? []).flatMap(({ field }) => field ?? []);
  }
}

/** Address and credentials of an API server. The token is read for each call, because a cluster replaces it every hour. */
export interface KubeAddress {
  url: string;
  ca: string | null;
  token: () => Promise<string>;
}

const mounted = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Returns the configured API server, or that of the pod. @throws Error outside a pod without a configured address. */
export async function findApiServer(
  environment: { host: string | undefined; port: string | undefined },
  given: { url: string | undefined; tokenFile: string | undefined; caFile: string | undefined },
): Promise<KubeAddress> {
  const { host, port = "443" } = environment;
  const url =
    given.url ?? (host === undefined ? undefined : `https://${host.includes(":") ? `[${host}]` : host}:${port}`);
  if (url === undefined)
    throw new Error("this process does not run in a pod: set PIERHEAD_KUBERNETES_URL, _TOKEN_FILE and _CA_FILE");
  const tokenFile = given.tokenFile ?? `${mounted}/token`;
  const caFile = given.caFile ?? (given.url === undefined ? `${mounted}/ca.crt` : undefined);
  const ca = caFile === undefined ? null : await readFile(caFile, "utf8");
  return { url, ca, token: async () => (await readFile(tokenFile, "utf8")).trim() };
}

export const fieldManager = "pierhead-listener";

const callTimeoutMs = 30_000;

/**
 * A pass makes about 20 calls. If a busy server rejects one in three, no pass would ever complete without retries. After
 * five tries, about a second apart, the whole pass waits.
 */
const attemptsMax = 5;
const retryAfterMsMax = 10_000;

const contentTypes = {
  json: "application/json",
  apply: "application/apply-patch+yaml",
  merge: "application/merge-patch+json",
  jsonPatch: "application/json-patch+json",
} as const;

interface Call {
  method: string;
  path: string;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  type?: keyof typeof contentTypes;
  signal: AbortSignal;
  /** 0: no timeout, the caller watches the call. */
  timeoutMs?: number;
}

/** Client for the API of a cluster, as far as this listener uses it; see https://kubernetes.io/docs/reference/using-api/. */
export class ApiServer {
  readonly #address: KubeAddress;
  readonly #base: URL;
  readonly #agent: Agent;

  constructor(address: KubeAddress) {
    this.#address = address;
    this.#base = new URL(address.url);
    const options = { keepAlive: true, maxSockets: 32, timeout: 60_000 };
    const isTls = this.#base.protocol === "https:";
    this.#agent = isTls
      ? new TlsAgent({ ...options, ...(address.ca !== null && { ca: address.ca }) })
      : new Agent(options);
  }

  /** Sends one call and returns its JSON answer. @throws KubeError; Error when there is no answer; the reason of the signal. */
  async call<T = Manifest>(call: Call): Promise<T> {
    const answer = await this.open(call);
    return JSON.parse(await readText(answer)) as T;
  }

  /** Returns an object; null when it does not exist. */
  get<T = Manifest>(kind: string, namespace: string, name: string, signal: AbortSignal): Promise<T | null> {
    return this.#unlessMissing(() => this.call<T>({ method: "GET", path: pathOf(kind, namespace, name), signal }));
  }

  async list<T = Manifest>(
    kind: string,
    namespace: string,
    query: { labelSelector?: string; fieldSelector?: string; limit?: number },
    signal: AbortSignal,
  ): Promise<{ items: T[]; resourceVersion: string }> {
    const items: T[] = [];
    let next: string | undefined;
    for (;;) {
      const page: { items: T[]; metadata: { continue?: string; resourceVersion: string } } = await this.call({
        method: "GET",
        path: pathOf(kind, namespace),
        query: { limit: 500, ...query, continue: next },
        signal,
      });
      items.push(...page.items);
      next = page.metadata.continue || undefined;
      if (next === undefined) return { items, resourceVersion: page.metadata.resourceVersion };
    }
  }

  /** Applies an object: sets its fields and removes those that we applied before, even if another client changed them. */
  apply(
    manifest: Manifest,
    signal: AbortSignal,
    options: { manager?: string; isForced?: boolean; dryRun?: boolean } = {},
  ) {
    const { manager = fieldManager, isForced = true, dryRun = false } = options;
    return this.call({
      method: "PATCH",
      path: pathOf(manifest.kind, manifest.metadata.namespace, manifest.metadata.name),
      query: {
        fieldManager: manager,
        force: isForced,
        fieldValidation: "Strict",
        dryRun: dryRun ? "All" : undefined,
      },
      body: manifest,
      type: "apply",
      signal,
    });
  }

  /** Creates an object. @returns false when it exists already */
  async create(manifest: Manifest, signal: AbortSignal, { dryRun = false } = {}): Promise<boolean> {
    const { kind, metadata } = manifest;
    try {
      const query = { fieldManager, fieldValidation: "Strict", dryRun: dryRun ? "All" : undefined };
      await this.call({ method: "POST", path: pathOf(kind, metadata.namespace), query, body: manifest, signal });
      return true;
    } catch (error) {
      if (error instanceof KubeError && error.reason === "AlreadyExists") return false;
      throw error;
    }
  }

  /** Replaces a whole object. Its `resourceVersion` must be current. */
  replace(manifest: Manifest, signal: AbortSignal) {
    const { kind, metadata } = manifest;
    const query = { fieldManager, fieldValidation: "Strict" };
    return this.call({
      method: "PUT",
      path: pathOf(kind, metadata.namespace, metadata.name),
      query,
      body: manifest,
      signal,
    });
  }

  patch(
    kind: string,
    key: { namespace: string; name: string },
    body: unknown,
    signal: AbortSignal,
    type: "merge" | "jsonPatch" = "merge",
  ) {
    const query = { fieldManager };
    return this.call({ method: "PATCH", path: pathOf(kind, key.namespace, key.name), query, body, type, signal });
  }

  /** Deletes an object. A missing one is no error. `uid`: deletes only this very object. */
  async remove(
    kind: string,
    key: { namespace: string; name: string },
    options: { uid?: string; propagationPolicy?: "Foreground" | "Background" | "Orphan" },
    signal: AbortSignal,
  ): Promise<void> {
    const { uid, propagationPolicy = "Background" } = options;
    const body = { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy, ...(uid && { preconditions: { uid } }) };
    const path = pathOf(kind, key.namespace, key.name);
    await this.#unlessMissing(() => this.call({ method: "DELETE", path, body, signal }));
  }

  /** Reads the log of a pod's container. */
  async readLog(key: { namespace: string; name: string }, query: NonNullable<Call["query"]>, signal: AbortSignal) {
    const path = `${pathOf("Pod", key.namespace, key.name)}/log`;
    return readText(await this.open({ method: "GET", path, query, signal }));
  }

  /** Opens a WebSocket. @throws KubeError; Error when there is no answer; the reason of the signal */
  async openWebSocket(
    path: string,
    { query, protocols, signal }: { query: URLSearchParams; protocols: string[]; signal: AbortSignal },
  ): Promise<{ socket: Socket; protocol: string }> {
    const headers: OutgoingHttpHeaders = {
      authorization: `Bearer ${await this.#address.token()}`,
      ...{ connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" },
      "sec-websocket-key": randomBytes(16).toString("base64"),
      "sec-websocket-protocol": protocols.join(", "),
    };
    const send = this.#base.protocol === "https:" ? tlsRequest : request;
    const sent = send(new URL(`${path}?${query}`, this.#base), { headers, agent: this.#streamAgent(), signal });
    sent.end();
    const failed = (error: Error) => (signal.aborted ? signal.reason : unreachable(this.#base, error));
    const { socket, answer } = await awaitUpgrade(sent, { timeoutMs: callTimeoutMs, refused: refusal, failed });
    return { socket, protocol: answer.headers["sec-websocket-protocol"] ?? "" };
  }

  close(): void {
    this.#agent.destroy();
  }

  /** Sends a call whose answer the caller reads. Retries when a busy server asks for it. */
  async open(call: Call): Promise<IncomingMessage> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#send(call);
      } catch (error) {
        if (!(error instanceof KubeError) || error.retryAfterMs === null || attempt === attemptsMax) throw error;
        const afterMs = Math.min(error.retryAfterMs, retryAfterMsMax) * (0.5 + Math.random());
        await sleep(afterMs, undefined, { signal: call.signal }).catch(() => call.signal.throwIfAborted());
      }
    }
  }

  async #send({ method, path, query = {}, body, type = "json", signal, timeoutMs = callTimeoutMs }: Call) {
    const token = await this.#address.token();
    const search = new URLSearchParams();
    for (const [key, value] of Object.entries(query)) if (value !== undefined) search.set(key, String(value));
    const payload = body === undefined ? "" : JSON.stringify(body);
    const headers: OutgoingHttpHeaders = {
      authorization: `Bearer ${token}`,
      accept: "application/json",
      "content-length": Buffer.byteLength(payload),
      ...(payload !== "" && { "content-type": contentTypes[type] }),
    };
    const deadline = timeoutMs === 0 ? [] : [AbortSignal.timeout(timeoutMs)];
    const ending = AbortSignal.any([signal, ...deadline]);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const send = this.#base.protocol === "https:" ? tlsRequest : request;
    const target = new URL(path + (search.size === 0 ? "" : `?${search}`), this.#base);
    const sent = send(target, {
      method,
      headers,
      agent: timeoutMs === 0 ? this.#streamAgent() : this.#agent,
      signal: ending,
    });
    sent.on("response", resolve);
    sent.on("error", (error) => reject(ending.aborted ? ending.reason : unreachable(this.#base, error)));
    sent.end(payload);
    const answer = await promise;
    if ((answer.statusCode ?? 500) >= 400) throw await refusal(answer);
    return answer;
  }

  /** Returns an agent for watches, which keep their connection and must not take one from calls. */
  #streamAgent(): Agent {
    const { ca } = this.#address;
    return this.#base.protocol === "https:" ? new TlsAgent(ca === null ? {} : { ca }) : new Agent();
  }

  async #unlessMissing<T>(act: () => Promise<T>): Promise<T | null> {
    try {
      return await act();
    } catch (error) {
      if (error instanceof KubeError && error.status === 404) return null;
      throw error;
    }
  }
}

const unreachable = (base: URL, error: Error) =>
  new Error(`the API server at ${base.host} cannot be reached: ${error.message}`, { cause: error });

async function refusal(answer: IncomingMessage): Promise<KubeError> {
  const text = await readText(answer);
  const status = answer.statusCode ?? 500;
  const retryAfterMs = status === 429 ? 1_000 * (Number(answer.headers["retry-after"]) || 1) : null;
  try {
    return new KubeError(status, JSON.parse(text), retryAfterMs);
  } catch {
    return new KubeError(status, { message: text.trim() }, retryAfterMs);
  }
}
