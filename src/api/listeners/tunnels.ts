import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { encodeFrame, readFirstFrame } from "../../base/frames.ts";
import { errors } from "../../contract/error.ts";
import {
  tunnelChannels as channels,
  TunnelFound,
  type TunnelOrder,
  tunnelFrameBytesMax,
} from "../../contract/listeners/tunnel.ts";
import { tunnelWaitMs } from "../../domain/limits.ts";
import { listTunnels, placeTunnel, removeTunnel } from "../../store/data-plane/tunnels.ts";
import type { Db } from "../../store/engine/database.ts";
import { compileValidator } from "../validation/validate.ts";
import { ChangeCheck } from "./change-check.ts";

/** A listener that takes orders on this server. */
interface Follower {
  listenerId: string;
  socket: Socket;
  /** Orders that it has got. */
  sent: Set<string>;
}

interface Waiting {
  listenerId: string;
  /** Ends the wait. null: no connection comes. */
  settle(socket: Socket | null): void;
}

export interface OpenTunnel {
  socket: Socket;
  replicaId: string | null;
}

/**
 * Connections through listeners. A listener follows the orders on any replica of the control plane; the replica on which a user waits
 * writes the order into the database, and every replica passes it on to the listeners that follow there.
 */
export class Tunnels {
  readonly #db: Db;
  readonly #replicaUrl: () => string;
  readonly #waiting = new Map<string, Waiting>();
  readonly #followers = new Set<Follower>();
  readonly #sockets = new Set<Socket>();
  readonly #changes: ChangeCheck;
  #isClosed = false;

  /** @param replicaUrl address of this server as other replicas reach it */
  constructor(db: Db, replicaUrl: () => string) {
    this.#db = db;
    this.#replicaUrl = replicaUrl;
    this.#changes = new ChangeCheck(
      (wake) => db.changes.onEvents(wake),
      () => this.#sendOrders(),
    );
  }

  /**
   * Asks a listener for a connection to one of its agents and waits for it. The connection ends with that of the user.
   * @throws ApiError `execUnavailable` when the listener does not answer in time, or does not find the agent; `unavailable` when this
   * server stops.
   */
  async open(listenerId: string, wanted: Omit<TunnelOrder, "tunnel_id">, user: Socket): Promise<OpenTunnel> {
    if (this.#isClosed) throw errors.unavailable(stops, 5);
    const id = randomUUID();
    const { promise, resolve } = Promise.withResolvers<Socket | null>();
    const settle = (socket: Socket | null) => {
      this.#waiting.delete(id);
      if (socket !== null) endWith(socket, user);
      resolve(socket);
    };
    const leave = () => settle(null);
    const timer = setTimeout(leave, tunnelWaitMs);
    this.#waiting.set(id, { listenerId, settle });
    user.once("close", leave);
    if (user.destroyed) leave();
    try {
      const replicaUrl = this.#replicaUrl();
      await placeTunnel(this.#db, { id, listener_id: listenerId, wanted, replicaUrl, forMs: tunnelWaitMs });
      const socket = await promise;
      if (this.#isClosed) throw errors.unavailable(stops, 5);
      if (socket === null) throw errors.execUnavailable(unanswered);
      return await read(socket);
    } finally {
      clearTimeout(timer);
      user.off("close", leave);
      this.#waiting.delete(id);
      // It expires anyway.
      await removeTunnel(this.#db, id).catch(() => {});
    }
  }

  /** Whether a user waits on this server for a connection of this listener. */
  waits(id: string, listenerId: string): boolean {
    return this.#waiting.get(id)?.listenerId === listenerId;
  }

  /** Hands a connection of a listener over to the user who waits for it. */
  accept(id: string, socket: Socket): void {
    this.keep(socket);
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) socket.destroy();
    else waiting.settle(socket);
  }

  /** Sends orders to a listener for as long as its connection lasts, or until it opens another one here. */
  follow(listenerId: string, socket: Socket): void {
    for (const before of this.#followers) if (before.listenerId === listenerId) before.socket.destroy();
    const follower = { listenerId, socket, sent: new Set<string>() };
    this.keep(socket);
    this.#followers.add(follower);
    socket.once("close", () => {
      this.#followers.delete(follower);
      if (this.#followers.size === 0) this.#changes.stop();
    });
    this.#changes.start();
    void this.#changes.run();
  }

  /** Ends a connection with this server. */
  keep(socket: Socket): void {
    if (this.#isClosed) socket.destroy();
    if (socket.closed) return;
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }

  /** Ends all connections. Listeners follow another server, or this one when it runs again. */
  close(): void {
    this.#isClosed = true;
    this.#changes.stop();
    for (const { settle } of [...this.#waiting.values()]) settle(null);
    for (const socket of this.#sockets) socket.destroy();
  }

  async #sendOrders(): Promise<void> {
    const ids = new Set(Array.from(this.#followers, ({ listenerId }) => listenerId));
    const rows = await listTunnels(this.#db, [...ids]);
    for (const { listenerId, socket, sent } of this.#followers) {
      const own = rows.filter((row) => row.listener_id === listenerId);
      for (const { id, wanted } of own) {
        if (sent.has(id) || !socket.writable) continue;
        socket.write(encodeFrame(channels.order, JSON.stringify({ ...wanted, tunnel_id: id } satisfies TunnelOrder)));
      }
      sent.clear();
      for (const { id } of own) sent.add(id);
    }
  }
}

const stops = "This server stops.";

const unanswered =
  "The listener of this agent did not open a connection in time. It may not run, be older than this server, or reach the server " +
  "through a proxy that does not pass upgraded connections.";

/** Ends the connection of a listener with that of the user, wherever that one ends. */
function endWith(socket: Socket, user: Socket): void {
  const leave = () => socket.destroy();
  user.once("close", leave);
  socket.once("close", () => user.off("close", leave));
  if (user.destroyed) leave();
}

/** Reads whether the listener found the agent. */
async function read(socket: Socket): Promise<OpenTunnel> {
  const frame = await readFirstFrame(socket, { bytesMax: tunnelFrameBytesMax, timeoutMs: tunnelWaitMs });
  const found = frame === null || frame.channel !== channels.found ? null : parse(frame.payload);
  if (found?.message === null) return { socket, replicaId: found.replica_id };
  socket.destroy();
  throw errors.execUnavailable(found?.message ?? "The listener of this agent closed the connection.");
}

const checkFound = compileValidator(TunnelFound, "body");

/** @returns null for what no listener of Pierhead sends */
function parse(payload: Buffer): TunnelFound | null {
  try {
    const { value, problems } = checkFound(JSON.parse(payload.toString("utf8")));
    return problems.length === 0 ? (value as TunnelFound) : null;
  } catch {
    return null;
  }
}
