import { type Static, type TSchema, Type } from "typebox";
import { Compile, type Validator } from "typebox/compile";
import {
  DesiredPage,
  epochHeader,
  type Inventory,
  InventoryAnswer,
  type LogBatch,
  SecretValues,
  Session,
  type SessionRequest,
  type StatusBatch,
} from "../contract/listeners/assignment.ts";
import {
  type BuildOrder,
  BuildOrders,
  type BuildProgress,
  BuildProgressAnswer,
} from "../contract/listeners/build-order.ts";
import { type ImageRemoval, ImageRemovalAnswer, type ImageRemovalEnd } from "../contract/listeners/image-removal.ts";
import { knownBuildsText } from "../contract/listeners/known-builds.ts";
import { Enrolled, Heartbeat } from "../contract/listeners/listener-protocol.ts";
import type { MetricBatch } from "../contract/logs/metrics.ts";
import { type OperationName, routeOf, routes, type Verb } from "../contract/routes.ts";
import { readMessages, type StreamMessage } from "./event-stream.ts";

export interface SendRequest {
  method: Verb;
  /** Starts with `/dp/v1/` and includes the query. */
  path: string;
  /** Sent as JSON. */
  body?: unknown;
  headers: Record<string, string>;
  signal: AbortSignal;
}

/** Sends one call to a control plane: over HTTP, or directly to the server in the same process. */
export type Send = (request: SendRequest) => Promise<{ status: number; body: unknown }>;

/** Opens a stream of server-sent events. A server without streams answers like any other call. */
export type OpenStream = (
  request: Pick<SendRequest, "path" | "headers" | "signal">,
) => Promise<{ status: number; body: unknown } | { messages: AsyncIterable<StreamMessage> }>;

export interface ListenerClient {
  /**
   * Opens the session that makes this instance the only one that acts for its listener.
   * @throws CallRefused with `error` = `listener_busy` (409) while another instance holds the session, `listener_draining`
   * while this listener is draining.
   */
  openSession(request: SessionRequest, signal: AbortSignal): Promise<ListenerSession>;
}

/**
 * Calls of one session, each of which carries its epoch. They throw StaleEpoch once a newer session exists, CallRefused on
 * any other error response, and the error of the transport when the control plane cannot be reached.
 */
export interface ListenerSession extends Session {
  /**
   * Returns assignments newer than `after` (0: all of them), waiting up to `waitMs` (at most `waitMsMax`) for the first one.
   * @throws Gone when `after` is older than the control plane can compare: read everything again, from 0.
   */
  desired(after: number, waitMs: number, signal: AbortSignal): Promise<DesiredPage>;
  /**
   * Yields the same assignments as they change, for as long as the connection lasts. null is a heartbeat. Absent if the
   * transport has no streams. Ends with the connection. An older server answers with one page.
   * @throws Gone as above.
   */
  stream?(after: number, signal: AbortSignal): AsyncGenerator<DesiredPage | null, void, undefined>;
  secrets(deploymentId: string, secretSetId: string, signal: AbortSignal): Promise<Record<string, string>>;
  report(batch: StatusBatch, signal: AbortSignal): Promise<void>;
  sendLogs(batch: LogBatch, signal: AbortSignal): Promise<void>;
  sendMetrics(batch: MetricBatch, signal: AbortSignal): Promise<void>;
  /** Returns the builds that this listener shall run, waiting up to `waitMs` for a list that differs from `known`. */
  buildOrders(known: string[], waitMs: number, signal: AbortSignal): Promise<BuildOrder[]>;
  /** Sends log lines of a build, and its end. Returns whether the build is still wanted. */
  reportBuild(buildId: string, progress: Omit<BuildProgress, "build_id">, signal: AbortSignal): Promise<boolean>;
  /** Reports the removal of images that has ended, and returns images to remove next; null: none. */
  claimImageRemoval(ended: ImageRemovalEnd | null, signal: AbortSignal): Promise<ImageRemoval | null>;
  heartbeat(signal: AbortSignal): Promise<Heartbeat>;
  compare(inventory: Inventory, signal: AbortSignal): Promise<InventoryAnswer>;
  /** Ends the session, so that the next instance can start at once instead of after the lease. */
  close(signal: AbortSignal): Promise<void>;
}

/** A newer session of this listener exists, so this instance must stop acting. */
export class StaleEpoch extends Error {
  override name = "StaleEpoch";
}

/** The control plane no longer has the changes since then (410). */
export class Gone extends Error {
  override name = "Gone";
}

/** Any other error response, or a response that does not match the protocol (`status` 0). */
export class CallRefused extends Error {
  override name = "CallRefused";
  readonly status: number;
  /** The stable code in the body's `error`, if there is one. */
  readonly error: string | null;
  constructor(status: number, error: string | null, message: string) {
    super(message);
    this.status = status;
    this.error = error;
  }
}

/** Longest wait of one `desired` call that a control plane accepts. */
export const waitMsMax = 30_000;

/** Timeout of calls. They read or write little, so a later response means that the connection is dead. */
const callTimeoutMs = 30_000;

/** Creates the client. Without `openStream` it requests assignments by long poll. */
export function createListenerClient(send: Send, openStream?: OpenStream): ListenerClient {
  return {
    async openSession(request, signal) {
      const opened = await call(send, { ...at("openListenerSession"), body: request, signal }, Session);
      const stream = openStream && ((after: number, ending: AbortSignal) => follow(openStream, opened, after, ending));
      return { ...opened, ...sessionCalls(send, opened.epoch), ...(stream && { stream }) };
    },
  };
}

function sessionCalls(send: Send, epoch: number): Omit<ListenerSession, keyof Session> {
  const headers = { [epochHeader]: String(epoch) };
  const ask = <S extends TSchema>(request: Omit<Call, "headers">, schema: S) =>
    call(send, { ...request, headers }, schema);
  return {
    desired(after, waitMs, signal) {
      const timeoutMs = callTimeoutMs + waitMs;
      return ask({ ...desiredAfter(after, Math.min(waitMs, waitMsMax)), signal, timeoutMs }, DesiredPage);
    },
    async secrets(deploymentId, secretSetId, signal) {
      const { method, path } = at("getSecretValues");
      const filled = `${path.replace("{deployment_id}", deploymentId)}?secret_set_id=${secretSetId}`;
      return (await ask({ method, path: filled, signal }, SecretValues)).values;
    },
    async report(batch, signal) {
      await ask({ ...at("reportStatus"), body: batch, signal }, nothing);
    },
    async sendLogs(batch, signal) {
      await ask({ ...at("sendReplicaLogs"), body: batch, signal }, nothing);
    },
    async sendMetrics(batch, signal) {
      await ask({ ...at("sendMetrics"), body: batch, signal }, nothing);
    },
    async buildOrders(known, waitMs, signal) {
      const { method, path } = at("listBuildOrders");
      const query = new URLSearchParams({
        wait: String(Math.min(waitMs, waitMsMax) / 1_000),
        known: knownBuildsText(known),
      });
      const timeoutMs = callTimeoutMs + waitMs;
      return (await ask({ method, path: `${path}?${query}`, signal, timeoutMs }, BuildOrders)).items;
    },
    async reportBuild(buildId, progress, signal) {
      const body = { build_id: buildId, ...progress };
      return (await ask({ ...at("reportBuild"), body, signal }, BuildProgressAnswer)).is_wanted;
    },
    async claimImageRemoval(ended, signal) {
      return (await ask({ ...at("claimImageRemoval"), body: { ended }, signal }, ImageRemovalAnswer)).removal;
    },
    heartbeat: (signal) => ask({ ...at("sendHeartbeat"), signal }, Heartbeat),
    compare: (inventory, signal) => ask({ ...at("compareInventory"), body: inventory, signal }, InventoryAnswer),
    async close(signal) {
      await ask({ ...at("closeListenerSession"), signal }, nothing);
    },
  };
}

/**
 * Exchanges the enrollment token, which `send` uses as its key, for the key of the listener.
 * @throws CallRefused with `status` 401 when the token is unknown, expired or already exchanged.
 */
export function enroll(send: Send, signal: AbortSignal): Promise<Enrolled> {
  return call(send, { ...at("enrollListener"), signal }, Enrolled);
}

/** Returns method and path of an operation of the listener protocol. */
function at(name: OperationName): Pick<Call, "method" | "path"> {
  const { verb, path } = routeOf(routes[name]);
  return { method: verb, path };
}

function desiredAfter(after: number, waitMs: number): Pick<Call, "method" | "path"> {
  const { method, path } = at("getDesired");
  return { method, path: `${path}?after=${after}&wait=${waitMs / 1_000}` };
}

async function* follow(
  openStream: OpenStream,
  { epoch }: Session,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<DesiredPage | null, void, undefined> {
  const desired = desiredAfter(after, waitMsMax);
  const opened = await openStream({ path: desired.path, headers: { [epochHeader]: String(epoch) }, signal });
  if ("status" in opened) return yield checked(opened, desired, DesiredPage);
  for await (const { type, data } of opened.messages) {
    if (type === "stale") throw new StaleEpoch("A newer session of this listener was opened.");
    yield data === ""
      ? null
      : checked({ status: 200, body: parsed(data) }, { method: "GET", path: desired.path }, DesiredPage);
  }
}

const nothing = Type.Unknown();

interface Call extends Omit<SendRequest, "headers"> {
  headers?: Record<string, string>;
  timeoutMs?: number;
}

async function call<S extends TSchema>(send: Send, { timeoutMs, ...request }: Call, schema: S): Promise<Static<S>> {
  const ending = new AbortController();
  const end = () => ending.abort(request.signal.reason ?? new DOMException("no answer in time", "TimeoutError"));
  // AbortSignal.timeout would keep a finished call in memory, and abort it 30 s later.
  const timer = setTimeout(end, timeoutMs ?? callTimeoutMs).unref();
  request.signal.addEventListener("abort", end, { once: true });
  if (request.signal.aborted) end();
  const answer = await send({ ...request, headers: request.headers ?? {}, signal: ending.signal }).finally(() => {
    clearTimeout(timer);
    request.signal.removeEventListener("abort", end);
  });
  return checked(answer, request, schema);
}

function checked<S extends TSchema>(
  { status, body }: { status: number; body: unknown },
  request: { method: string; path: string },
  schema: S,
): Static<S> {
  if (status < 200 || status > 299) throw refusal(status, body);
  // A proxy's "200, please log in" must never pass for a list of assignments, because missing assignments are removed.
  if (validatorOf(schema).Check(body)) return body as Static<S>;
  throw new CallRefused(0, null, `${request.method} ${request.path} answered ${status} with an unexpected body`);
}

/** Compiled validators. A page of assignments is checked in 2 us per item, where walking its schema took 140. */
const validators = new WeakMap<TSchema, Validator>();

function validatorOf(schema: TSchema): Validator {
  const known = validators.get(schema) ?? Compile(schema);
  validators.set(schema, known);
  return known;
}

function refusal(status: number, body: unknown): Error {
  const { error, detail } = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const text = typeof detail === "string" ? detail : `the control plane answered ${status}`;
  if (status === 410) return new Gone(text);
  if (status === 409 && error === "stale_epoch") return new StaleEpoch(text);
  return new CallRefused(status, typeof error === "string" ? error : null, text);
}

/** Sends calls to a control plane by HTTP. `apiKey` is the listener's key or reads it, so a key can be replaced without a restart. */
export function httpSend(baseUrl: string, apiKey: string | (() => Promise<string>)): Send {
  const base = baseUrl.replace(/\/+$/, "");
  return async ({ method, path, body, headers, signal }) => {
    const response = await fetch(base + path, {
      method,
      headers: {
        "x-api-key": typeof apiKey === "string" ? apiKey : await apiKey(),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      // A redirect would send the key to another host.
      redirect: "error",
      signal,
    });
    const text = await response.text();
    return { status: response.status, body: parsed(text) };
  };
}

/** Opens streams of a control plane by HTTP. */
export function httpStreams(baseUrl: string, apiKey: string | (() => Promise<string>)): OpenStream {
  const base = baseUrl.replace(/\/+$/, "");
  return async ({ path, headers, signal }) => {
    const key = typeof apiKey === "string" ? apiKey : await apiKey();
    const asked = { ...headers, "x-api-key": key, accept: "text/event-stream" };
    const response = await fetch(base + path, { headers: asked, redirect: "error", signal });
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    if (!isStream || response.body === null) return { status: response.status, body: parsed(await response.text()) };
    return { messages: readMessages(response.body, "") };
  };
}

function parsed(text: string): unknown {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return text;
  }
}
