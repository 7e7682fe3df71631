import { appendFileSync } from "node:fs";
import { type NetConnectOpts, Socket } from "node:net";

/**
 * Loaded into a Node program under test before its own code. Records its connections and restricts them to this machine. The
 * program itself is unchanged.
 */
const file = process.env["PIERHEAD_CONNECTIONS_FILE"] ?? "/dev/null";
const ownHosts = new Set(["127.0.0.1", "localhost", "::1"]);
const connect = Socket.prototype.connect as (this: Socket, ...args: unknown[]) => Socket;

Socket.prototype.connect = function (this: Socket, ...args: unknown[]) {
  // `net.connect` passes its arguments on as one list.
  const options = (Array.isArray(args[0]) ? args[0][0] : args[0]) as NetConnectOpts;
  if (typeof options === "object" && "port" in options) {
    const host = options.host ?? "localhost";
    appendFileSync(file, `${host}:${options.port}\n`);
    if (!ownHosts.has(host)) {
      queueMicrotask(() => this.destroy(new Error(`${host} is outside`)));
      return this;
    }
  }
  return connect.apply(this, args);
} as typeof connect;
