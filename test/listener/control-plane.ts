import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import type { StreamMessage } from "../../src/client/event-stream.ts";
import type { OpenStream, Send } from "../../src/client/listener-client.ts";
import {
  type Assignment,
  type DeploymentReport,
  type DesiredPage,
  epochHeader,
  type Inventory,
  type LogBatch,
  type ReplicaLogLine,
  type StatusBatch,
} from "../../src/contract/listeners/assignment.ts";
import type { MetricBatch, MetricSample } from "../../src/contract/logs/metrics.ts";

type Answer = Awaited<ReturnType<Send>>;

/**
 * The control plane's side of `/dp/v1`: serves the assignments it is given and stores reports. With `isFollowing` it also
 * acts on reports like a reconciler: a ready target becomes the serving revision, and a failed one is taken back.
 */
export class ControlPlane {
  readonly calls: { path: string; epoch: number | null }[] = [];
  readonly batches: DeploymentReport[][] = [];
  readonly reports = new Map<string, DeploymentReport>();
  readonly history: DeploymentReport[] = [];
  readonly lines = new Map<string, ReplicaLogLine>();
  readonly samples: MetricSample[] = [];
  readonly secrets = new Map<string, Record<string, string>>();
  readonly assignments = new Map<string, Assignment>();
  listenerId: string = randomUUID();
  epoch = 0;
  leaseTtlS = 1;
  heartbeatS = 1;
  pageMax = 100;
  /** Cuts every connection. */
  isAway = false;
  /** Does not answer requests for pages after the first one. */
  isListHeld = false;
  /** Streams stay open but send nothing. */
  isStreamStuck = false;
  isFollowing = true;
  /** Additional fields in the answers to heartbeats. */
  orders: { drain?: boolean; log_level?: "debug" | null } = {};
  onReports: (reports: DeploymentReport[], epoch: number) => void = () => {};
  /** Called with each report before it is acted on, because the state it describes may be over in the next moment. */
  readonly watchers = new Set<(report: DeploymentReport) => void>();
  /** Answers the next request for changes with 410, like a control plane whose database was restored from a copy. */
  hasForgotten = false;
  logLinesSent = 0;
  readonly #clock: Clock;
  #rv = 0;
  readonly #waiters = new Set<() => void>();

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  goAway(): void {
    this.isAway = true;
    this.#wake();
  }

  assign(parts: Partial<Assignment> & { deployment_id: string }): Assignment {
    const before = this.assignments.get(parts.deployment_id);
    this.#rv += 1;
    const assignment: Assignment = {
      tenant_id: "7a9d6ab0-1f9c-4d9b-8f5f-6c2f6a3f0001",
      slug: `d-${parts.deployment_id.slice(0, 8)}`,
      op: "apply",
      target: null,
      serving: null,
      idle_after_ms: null,
      ...before,
      ...parts,
      rv: this.#rv,
      generation: (before?.generation ?? 0) + 1,
    };
    this.assignments.set(parts.deployment_id, assignment);
    this.#wake();
    return assignment;
  }

  /** Forgets a deployment without a trace, like a row that was deleted long ago, together with its tombstone. */
  forget(deploymentId: string): void {
    this.assignments.delete(deploymentId);
  }

  /** Answers one call. Rejects like a cut connection. */
  readonly send: Send = async ({ method, path, body, headers }) => {
    const url = new URL(path, "http://control-plane");
    const epoch = headers[epochHeader] === undefined ? null : Number(headers[epochHeader]);
    this.calls.push({ path: url.pathname, epoch });
    if (this.isAway) throw new Error("connection refused");
    const isOpening = method === "POST" && url.pathname === "/dp/v1/sessions";
    const isStale = !isOpening && epoch !== this.epoch;
    const stale = { status: 409, body: { detail: "A newer session exists.", error: "stale_epoch" } };
    const answer = isStale ? stale : await this.#answer(method, url, body);
    if (this.isAway) throw new Error("connection reset");
    return answer;
  };

  /** Streams the changes as they happen, with a ping every 10 s. */
  readonly openStream: OpenStream = async ({ path, headers, signal }) => {
    const url = new URL(path, "http://control-plane");
    const epoch = Number(headers[epochHeader]);
    this.calls.push({ path: `${url.pathname} as stream`, epoch });
    if (this.isAway) throw new Error("connection refused");
    return { messages: this.#messages(Number(url.searchParams.get("after")), epoch, signal) };
  };

  async *#messages(after: number, epoch: number, signal: AbortSignal): AsyncGenerator<StreamMessage> {
    let cursor = after;
    yield { type: "message", data: "", id: "" };
    for (;;) {
      const { promise: ended, reject } = Promise.withResolvers<never>();
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      const answer = this.#answerDesired(new URL(`http://control-plane/dp/v1/desired?after=${cursor}&wait=10`));
      const { body } = await Promise.race([this.isStreamStuck ? ended : answer, ended]);
      if (this.isAway) throw new Error("connection reset");
      if (epoch !== this.epoch) {
        yield { type: "stale", data: '{"error":"stale_epoch"}', id: "" };
        return;
      }
      const page = body as DesiredPage;
      cursor = page.rv;
      const isPing = page.items.length === 0;
      yield { type: isPing ? "message" : "desired", data: isPing ? "" : JSON.stringify(page), id: String(cursor) };
    }
  }

  async #answer(method: string, url: URL, body: unknown): Promise<Answer> {
    switch (url.pathname) {
      case "/dp/v1/sessions":
        if (method === "POST" && this.orders.drain === true) {
          return { status: 409, body: { detail: "To be drained.", error: "listener_draining" } };
        }
        return method === "DELETE" ? done : this.#openSession();
      case "/dp/v1/desired":
        return this.#answerDesired(url);
      case "/dp/v1/status":
        return this.#take(body as StatusBatch);
      case "/dp/v1/heartbeat":
        return { status: 200, body: { rv: this.#rv, ...this.orders } };
      case "/dp/v1/inventory":
        return this.#compare(body as Inventory);
      case "/dp/v1/logs":
        return this.#takeLogs(body as LogBatch);
      case "/dp/v1/metrics":
        this.samples.push(...(body as MetricBatch).samples);
        return { status: 204, body: undefined };
    }
    const values = this.secrets.get(url.searchParams.get("secret_set_id") ?? "");
    return values === undefined
      ? { status: 404, body: { detail: "Secret set not found." } }
      : { status: 200, body: { values } };
  }

  #openSession(): Answer {
    this.epoch += 1;
    const ids = { session_id: randomUUID(), listener_id: this.listenerId, epoch: this.epoch, protocol: 1 };
    return { status: 201, body: { ...ids, heartbeat_s: this.heartbeatS, lease_ttl_s: this.leaseTtlS } };
  }

  async #answerDesired(url: URL): Promise<Answer> {
    const after = Number(url.searchParams.get("after"));
    const endAtMs = this.#clock.now() + Number(url.searchParams.get("wait")) * 1_000;
    if (after > 0 && this.hasForgotten) {
      this.hasForgotten = false;
      return { status: 410, body: { detail: "gone" } };
    }
    if (after > 0 && this.isListHeld) return new Promise(() => {});
    for (;;) {
      const newer = [...this.assignments.values()].filter(({ rv }) => rv > after).sort((a, b) => a.rv - b.rv);
      const items = newer.slice(0, this.pageMax);
      if (items.length > 0 || this.#clock.now() >= endAtMs || this.isAway) {
        return { status: 200, body: { items, rv: items.at(-1)?.rv ?? after, more: newer.length > items.length } };
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiters.add(resolve);
      const cancel = this.#clock.setTimeout(resolve, endAtMs - this.#clock.now());
      await promise;
      this.#waiters.delete(resolve);
      cancel();
    }
  }

  #wake(): void {
    for (const wake of this.#waiters) wake();
  }

  #compare({ items, after, through }: Inventory): Answer {
    const held = new Map(items.map(({ deployment_id, generation }) => [deployment_id, generation]));
    const unknown = [...held.keys()].filter((deploymentId) => !this.assignments.has(deploymentId));
    const isBehind = [...this.assignments.values()].some(({ deployment_id, generation }) => {
      const isOnPage = deployment_id > (after ?? "") && (!through || deployment_id <= through);
      return isOnPage && (held.get(deployment_id) ?? 0) < generation;
    });
    return { status: 200, body: { unknown, is_behind: isBehind } };
  }

  #take({ reports }: StatusBatch): Answer {
    this.batches.push(reports);
    this.onReports(reports, this.epoch);
    for (const report of reports) {
      this.reports.set(report.deployment_id, report);
      this.history.push(report);
      for (const watch of this.watchers) watch(report);
      const assignment = this.assignments.get(report.deployment_id);
      if (!this.isFollowing || assignment === undefined || report.generation !== assignment.generation) continue;
      if (report.deleted) this.assignments.delete(report.deployment_id);
      else if (assignment.target?.revision_id !== assignment.serving?.revision_id) this.#settle(assignment, report);
    }
    return done;
  }

  #settle({ deployment_id, target, serving }: Assignment, { target_phase }: DeploymentReport): void {
    if (target_phase === "ready") this.assign({ deployment_id, serving: target });
    if (target_phase === "failed") this.assign({ deployment_id, target: serving });
  }

  #takeLogs({ lines }: LogBatch): Answer {
    this.logLinesSent += lines.length;
    for (const line of lines) this.lines.set(line.key, line);
    return done;
  }
}

const done: Answer = { status: 204, body: null };

/** The control plane behind real HTTP. `listener-key` is its only key. */
export async function serveControlPlane(controlPlane: ControlPlane) {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const { method, url, headers } = request;
    const isKnown = headers["x-api-key"] === "listener-key";
    const call = { method: method as "GET", path: url ?? "/", headers: headers as Record<string, string> };
    const body = text === "" ? undefined : JSON.parse(text);
    const signal = new AbortController().signal;
    const answering = isKnown
      ? controlPlane.send({ ...call, body, signal })
      : { status: 401, body: { detail: "Invalid token" } };
    try {
      const answer = await answering;
      response.writeHead(answer.status, { "content-type": "application/json" });
      response.end(answer.body === null ? "" : JSON.stringify(answer.body));
    } catch {
      request.socket.destroy();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      controlPlane.goAway();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
