import { Server } from "node:net";

/**
 * Preloaded into a server that reads no PORT, in an image: the first port that it opens becomes the one in PORT, on all
 * addresses. Nothing outside the container reaches another port.
 */
const port = Number(process.env["PORT"]);
const { listen } = Server.prototype;
let hasOpened = false;

/** @returns null for a socket file, and for any free port. */
function portIn(first: unknown): number | null {
  const wanted = typeof first === "object" && first !== null && "port" in first ? first.port : first;
  const isPort = typeof wanted === "number" || (typeof wanted === "string" && /^\d+$/.test(wanted));
  return isPort && Number(wanted) > 0 ? Number(wanted) : null;
}

Server.prototype.listen = function listenOnPort(this: Server, ...given: unknown[]): Server {
  const wanted = portIn(given[0]);
  if (hasOpened || wanted === null || !(port > 0)) return Reflect.apply(listen, this, given);
  hasOpened = true;
  if (wanted === port) return Reflect.apply(listen, this, given);
  const onListening = given.filter((one) => typeof one === "function").at(-1);
  const options = typeof given[0] === "object" ? given[0] : {};
  return Reflect.apply(listen, this, [
    { ...options, port, host: "0.0.0.0" },
    ...(onListening === undefined ? [] : [onListening]),
  ]);
};
