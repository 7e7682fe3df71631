import { appendFileSync } from "node:fs";
import { type NetConnectOpts, Socket } from "node:net";

/**
 * Loaded into a Node program under test before its own code: writes down where it connects to, and lets it connect to
 * this machine only. Nothing of the program itself is changed.
 */
const file = process.env["PIERHEAD_CONNECTIONS_FILE"] ?? "/dev/null";
const ownHosts = new Set(["127.0.0.1", "localhost", "::1"]);
const connect = Socket.prototype.connect as (this: Socket, ...args: unknown[]) => Socket;

Socket.prototype.connect = function (this: Socket, ...args: unknown[]) {
  // `net.connect` hands over its arguments as one list.
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
