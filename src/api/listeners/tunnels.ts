import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { encodeFrame, readFirstFrame } from "../../base/frames.ts";
import { errors } from "../../contract/error.ts";
import {
  tunnelChannels as channels,
  type TunnelFound,
  type TunnelOrder,
  tunnelFrameBytesMax,
} from "../../contract/listeners/tunnel.ts";
import { changePollIntervalMs, tunnelWaitMs } from "../../domain/limits.ts";
import { listTunnels, placeTunnel, removeTunnel, type TunnelRow } from "../../store/data-plane/tunnels.ts";
import type { Db } from "../../store/engine/database.ts";

/** A listener that takes orders on this server. */
interface Follower {
  listenerId: string;
  socket: Socket;
  /** Orders that it has got. */
  sent: Set<string>;
}

interface Waiting {
  listenerId: string;
  resolve(socket: Socket): void;
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
  #stopWatching: (() => void) | null = null;
  #isChecking = false;
  #mustCheck = false;
  #isClosed = false;

  /** @param replicaUrl address of this server as other replicas reach it */
  constructor(db: Db, replicaUrl: () => string) {
    this.#db = db;
    this.#replicaUrl = replicaUrl;
  }

  /**
   * Asks a listener for a connection to one of its agents and waits for it.
   * @throws ApiError `execUnavailable` when the listener does not answer in time, or does not find the agent.
   */
  async open(listenerId: string, wanted: Omit<TunnelOrder, "tunnel_id">): Promise<OpenTunnel> {
    if (this.#isClosed) throw errors.unavailable("This server stops.", 5);
    const id = randomUUID();
    const { promise, resolve } = Promise.withResolvers<Socket | null>();
    const timer = setTimeout(() => resolve(null), tunnelWaitMs);
    this.#waiting.set(id, { listenerId, resolve });
    try {
      const replicaUrl = this.#replicaUrl();
      await placeTunnel(this.#db, { id, listener_id: listenerId, wanted, replicaUrl, forMs: tunnelWaitMs });
      const socket = await promise;
      if (socket === null) throw errors.execUnavailable(unanswered);
      return await read(socket);
    } finally {
      clearTimeout(timer);
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
    this.#waiting.get(id)?.resolve(socket);
    this.#waiting.delete(id);
  }

  /** Sends orders to a listener for as long as its connection lasts, or until it opens another one here. */
  follow(listenerId: string, socket: Socket): void {
    for (const before of this.#followers) if (before.listenerId === listenerId) before.socket.destroy();
    const follower = { listenerId, socket, sent: new Set<string>() };
    this.keep(socket);
    this.#followers.add(follower);
    socket.once("close", () => {
      this.#followers.delete(follower);
      if (this.#followers.size === 0) this.#stop();
    });
    this.#stopWatching ??= this.#watch();
    void this.#check();
  }

  /** Ends a connection with this server. */
  keep(socket: Socket): void {
    if (this.#isClosed) socket.destroy();
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }

  /** Ends all connections. Listeners follow another server, or this one when it runs again. */
  close(): void {
    this.#isClosed = true;
    this.#stop();
    for (const socket of this.#sockets) socket.destroy();
  }

  #watch(): () => void {
    const check = () => void this.#check();
    const stopListening = this.#db.changes.onEvents(check);
    const poll = setInterval(check, changePollIntervalMs);
    return () => {
      stopListening();
      clearInterval(poll);
    };
  }

  #stop(): void {
    this.#stopWatching?.();
    this.#stopWatching = null;
  }

  async #check(): Promise<void> {
    this.#mustCheck = true;
    if (this.#isChecking) return;
    this.#isChecking = true;
    while (this.#mustCheck && this.#followers.size > 0) {
      this.#mustCheck = false;
      try {
        const ids = new Set(Array.from(this.#followers, ({ listenerId }) => listenerId));
        this.#send(await listTunnels(this.#db, [...ids]));
      } catch {
        // The next check retries.
      }
    }
    this.#isChecking = false;
  }

  #send(rows: TunnelRow[]): void {
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

const unanswered =
  "The listener of this agent did not open a connection in time. It may not run, be older than this server, or reach the server " +
  "through a proxy that does not pass upgraded connections.";

/** Reads whether the listener found the agent. */
async function read(socket: Socket): Promise<OpenTunnel> {
  const frame = await readFirstFrame(socket, { bytesMax: tunnelFrameBytesMax, timeoutMs: tunnelWaitMs });
  if (frame === null || frame.channel !== channels.found) {
    socket.destroy();
    throw errors.execUnavailable("The listener of this agent closed the connection.");
  }
  const { replica_id: replicaId, message } = JSON.parse(frame.payload.toString("utf8")) as TunnelFound;
  if (message !== null) {
    socket.destroy();
    throw errors.execUnavailable(message);
  }
  return { socket, replicaId };
}
