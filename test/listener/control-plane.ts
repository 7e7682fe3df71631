import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  type Assignment,
  type DeploymentReport,
  epochHeader,
  type LogBatch,
  type ReplicaLogLine,
  type StatusBatch,
} from "../../src/contract/assignment.ts";

export interface Call {
  method: string;
  path: string;
  epoch: number | null;
}

/**
 * The other side of `/dp/v1` over real HTTP: serves the assignments it is told, keeps what is reported. With
 * `isFollowing` it also does what a reconciler does with a report: a ready target serves, a failed one is taken back.
 */
export class ControlPlane {
  readonly calls: Call[] = [];
  readonly batches: DeploymentReport[][] = [];
  readonly reports = new Map<string, DeploymentReport>();
  readonly history: DeploymentReport[] = [];
  readonly lines = new Map<string, ReplicaLogLine>();
  readonly secrets = new Map<string, Record<string, string>>();
  readonly assignments = new Map<string, Assignment>();
  epoch = 0;
  leaseTtlS = 1;
  pageMax = 100;
  /** Every connection is cut. */
  isAway = false;
  /** Pages after the first one are not answered. */
  isListHeld = false;
  isFollowing = true;
  /** Cursors below this one are answered with 410. */
  rvMin = 0;
  logLinesSent = 0;
  #rv = 0;
  #waiters = new Set<() => void>();
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  async listen(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.isAway = true;
    this.#wake();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  goAway(): void {
    this.isAway = true;
    this.#wake();
    this.#server.closeAllConnections();
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

  /** As when a row was deleted long ago and its tombstone with it. */
  forget(deploymentId: string): void {
    this.assignments.delete(deploymentId);
  }

  #wake(): void {
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.isAway) return void request.socket.destroy();
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const body = text === "" ? null : JSON.parse(text);
    const url = new URL(request.url ?? "/", "http://control-plane");
    const epoch = request.headers[epochHeader] === undefined ? null : Number(request.headers[epochHeader]);
    this.calls.push({ method: request.method ?? "", path: url.pathname, epoch });
    const answer = (status: number, value?: unknown) => {
      if (this.isAway) return void request.socket.destroy();
      response
        .writeHead(status, { "content-type": "application/json" })
        .end(value === undefined ? "" : JSON.stringify(value));
    };
    if (request.headers["x-api-key"] !== "listener-key") return answer(401, { detail: "Invalid token" });
    const isOpening = request.method === "POST" && url.pathname === "/dp/v1/sessions";
    if (!isOpening && epoch !== this.epoch) return answer(409, { detail: "stale", error: "stale_epoch" });
    await this.#answer(request.method ?? "", url, body, answer);
  }

  async #answer(
    method: string,
    url: URL,
    body: unknown,
    answer: (status: number, value?: unknown) => void,
  ): Promise<void> {
    if (url.pathname === "/dp/v1/sessions") {
      if (method === "DELETE") return answer(204);
      this.epoch += 1;
      const [session_id, listener_id] = [randomUUID(), randomUUID()];
      const times = { heartbeat_s: 1, lease_ttl_s: this.leaseTtlS };
      return answer(201, { session_id, listener_id, epoch: this.epoch, protocol: 1, ...times });
    }
    if (url.pathname === "/dp/v1/desired") return this.#answerDesired(url, answer);
    if (url.pathname === "/dp/v1/status") return answer(this.#take(body as StatusBatch));
    if (url.pathname === "/dp/v1/heartbeat") return answer(200, { rv: this.#rv });
    if (url.pathname === "/dp/v1/logs") return answer(this.#takeLogs(body as LogBatch));
    const values = this.secrets.get(url.searchParams.get("secret_set_id") ?? "");
    return values === undefined ? answer(404, { detail: "Secret set not found." }) : answer(200, { values });
  }

  async #answerDesired(url: URL, answer: (status: number, value?: unknown) => void): Promise<void> {
    const after = Number(url.searchParams.get("after"));
    const endAtMs = Date.now() + Number(url.searchParams.get("wait")) * 1_000;
    if (after > 0 && after < this.rvMin) return answer(410, { detail: "gone" });
    if (after > 0 && this.isListHeld) return;
    for (;;) {
      const newer = [...this.assignments.values()].filter(({ rv }) => rv > after).sort((a, b) => a.rv - b.rv);
      const items = newer.slice(0, this.pageMax);
      if (items.length > 0 || Date.now() >= endAtMs || this.isAway) {
        const rv = items.at(-1)?.rv ?? Math.max(after, 0);
        return answer(200, { items, rv, more: newer.length > items.length });
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiters.add(resolve);
      const timer = setTimeout(resolve, endAtMs - Date.now());
      await promise;
      clearTimeout(timer);
    }
  }

  #take({ reports }: StatusBatch): number {
    this.batches.push(reports);
    for (const report of reports) {
      this.reports.set(report.deployment_id, report);
      this.history.push(report);
      const assignment = this.assignments.get(report.deployment_id);
      if (!this.isFollowing || assignment === undefined || report.generation !== assignment.generation) continue;
      if (report.deleted) this.assignments.delete(report.deployment_id);
      else if (assignment.target?.revision_id !== assignment.serving?.revision_id) this.#settle(assignment, report);
    }
    return 204;
  }

  #settle({ deployment_id, target, serving }: Assignment, { target_phase }: DeploymentReport): void {
    if (target_phase === "ready") this.assign({ deployment_id, serving: target });
    if (target_phase === "failed") this.assign({ deployment_id, target: serving });
  }

  #takeLogs({ lines }: LogBatch): number {
    this.logLinesSent += lines.length;
    for (const line of lines) this.lines.set(line.key, line);
    return 204;
  }
}
