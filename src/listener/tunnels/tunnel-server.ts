import type { Socket } from "node:net";
import { type Clock, jitteredBackoffMs, sleep } from "../../base/clock.ts";
import { encodeFrame, FrameReader } from "../../base/frames.ts";
import { CallRefused, type ListenerSession } from "../../client/listener-client.ts";
import type { AgentConnection, FoundReplica } from "../../compute/choose-replica.ts";
import { ExecRefused } from "../../compute/compute.ts";
import { epochHeader } from "../../contract/listeners/assignment.ts";
import {
  tunnelChannels as channels,
  type TunnelFound,
  type TunnelOrder,
  tunnelFrameBytesMax,
} from "../../contract/listeners/tunnel.ts";
import { slowReaderTimeoutMs, tunnelsOfListenerMax, tunnelWaitMs } from "../../domain/limits.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { serveProgram } from "./serve-program.ts";

const path = "/dp/v1/tunnels";

/** The control plane sends a frame every 15 s. */
const silenceMs = 50_000;

/** A control plane without tunnels may be updated, and a proxy that passes no upgrades may be replaced. */
const unknownMs = 300_000;

const retryBounds = { firstMs: 1_000, maxMs: 30_000 };
const opensMax = 3;

/** Opens a connection to the control plane that both sides use as they like. @throws CallRefused with its answer otherwise */
export type OpenUpgrade = (path: string, headers: Record<string, string>, signal: AbortSignal) => Promise<Socket>;

/** Where tunnels lead. */
export interface TunnelTargets {
  /** @throws ExecRefused */
  findProgram(deploymentId: string, replicaId: string | null, signal: AbortSignal): Promise<FoundReplica>;
  /** @throws ExecRefused */
  connect(order: TunnelOrder, signal: AbortSignal): Promise<AgentConnection>;
}

export interface TunnelServerOptions {
  open: OpenUpgrade;
  targets: TunnelTargets;
  clock: Clock;
  logger: Logger;
}

/** Serves the connections to agents that the control plane asks for. The listener dials each of them. */
export class TunnelServer {
  readonly #options: TunnelServerOptions;
  readonly #served = new Set<Promise<void>>();
  #ending = new AbortController();

  constructor(options: TunnelServerOptions) {
    this.#options = options;
  }

  /** Switches to a new session. Null: another instance leads. Ends the tunnels of the session before. */
  follow(session: Pick<ListenerSession, "epoch"> | null): void {
    this.#ending.abort(new Error("another session"));
    this.#ending = new AbortController();
    if (session !== null) void this.#follow(session.epoch, this.#ending.signal).catch(() => {});
  }

  /** Ends all tunnels, and waits for the programs in them. */
  async close(): Promise<void> {
    this.follow(null);
    await Promise.allSettled(this.#served);
  }

  async #follow(epoch: number, signal: AbortSignal): Promise<never> {
    const { clock, logger, open } = this.#options;
    const headers = { [epochHeader]: String(epoch) };
    for (let attempt = 1; ; attempt++) {
      let isUnknown = false;
      try {
        const socket = await open(path, headers, signal);
        attempt = 0;
        await this.#readOrders(socket, headers, signal);
      } catch (error) {
        signal.throwIfAborted();
        isUnknown = error instanceof CallRefused && [0, 400, 404, 426].includes(error.status);
        if (isUnknown) logger.info({ retry_ms: unknownMs }, "control plane passes no connections to agents");
      }
      signal.throwIfAborted();
      await sleep(clock, isUnknown ? unknownMs : jitteredBackoffMs(clock, Math.max(attempt, 1), retryBounds), signal);
    }
  }

  /** Serves orders until the connection ends. */
  async #readOrders(socket: Socket, headers: Record<string, string>, signal: AbortSignal): Promise<void> {
    const reader = new FrameReader(tunnelFrameBytesMax);
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const leave = () => socket.destroy();
    signal.addEventListener("abort", leave, { once: true });
    socket.setTimeout(silenceMs, leave);
    for (const event of ["error", "end"]) socket.on(event, leave);
    socket.once("close", () => resolve());
    socket.on("data", (chunk: Buffer) => {
      try {
        for (const { channel, payload } of reader.read(chunk)) {
          if (channel !== channels.order) continue;
          this.#begin(JSON.parse(payload.toString("utf8")) as TunnelOrder, headers, signal);
        }
      } catch {
        leave();
      }
    });
    socket.resume();
    if (signal.aborted) leave();
    await closed;
    signal.removeEventListener("abort", leave);
  }

  #begin(order: TunnelOrder, headers: Record<string, string>, signal: AbortSignal): void {
    const served = this.#serve(order, headers, signal).catch((error: unknown) => {
      if (signal.aborted) return;
      const { deployment_id, kind } = order;
      this.#options.logger.warn({ deployment_id, kind, error: describeError(error) }, "connection to an agent failed");
    });
    this.#served.add(served);
    void served.finally(() => this.#served.delete(served));
  }

  async #serve(order: TunnelOrder, headers: Record<string, string>, signal: AbortSignal): Promise<void> {
    const target = await this.#find(order, signal);
    const isConnection = typeof target !== "string" && "join" in target;
    let socket: Socket;
    try {
      socket = await this.#open(`${path}/${order.tunnel_id}`, headers, signal);
    } catch (error) {
      if (isConnection) target.close();
      throw error;
    }
    const leave = () => socket.destroy();
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    signal.addEventListener("abort", leave, { once: true });
    socket.on("error", leave).once("close", () => signal.removeEventListener("abort", leave));
    if (signal.aborted) leave();
    const found: TunnelFound =
      typeof target === "string"
        ? { replica_id: null, message: target.slice(0, 4_000) }
        : { replica_id: "replicaId" in target ? target.replicaId : null, message: null };
    const first = encodeFrame(channels.found, JSON.stringify(found));
    // The control plane may read slowly what it has not got yet, but not stop.
    const endSoon = () => socket.setTimeout(slowReaderTimeoutMs, leave).destroySoon();
    socket.write(first);
    if (typeof target === "string") endSoon();
    else if ("join" in target) target.join(socket);
    else
      await serveProgram(socket, target).then(endSoon, (error: unknown) => {
        leave();
        throw error;
      });
    await closed;
  }

  /** Returns where a tunnel leads, or why it leads nowhere. */
  async #find(order: TunnelOrder, signal: AbortSignal): Promise<FoundReplica | AgentConnection | string> {
    const { targets } = this.#options;
    if (this.#served.size >= tunnelsOfListenerMax)
      return "The listener of this agent carries as many connections as it may. Try again later.";
    const ending = AbortSignal.any([signal, AbortSignal.timeout(tunnelWaitMs)]);
    try {
      if (order.kind === "connect") return await targets.connect(order, ending);
      return await targets.findProgram(order.deployment_id, order.replica_id, ending);
    } catch (error) {
      if (error instanceof ExecRefused) return error.message;
      throw error;
    }
  }

  /** Another replica of the control plane may be the one that waits, and it may not be reachable for a moment. */
  async #open(to: string, headers: Record<string, string>, signal: AbortSignal): Promise<Socket> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#options.open(to, headers, signal);
      } catch (error) {
        const isBusy = error instanceof CallRefused && error.status === 503;
        if (!isBusy || attempt === opensMax) throw error;
        await sleep(this.#options.clock, retryBounds.firstMs, signal);
      }
    }
  }
}
