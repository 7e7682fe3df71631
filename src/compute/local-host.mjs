import { Server } from "node:http";

/**
 * Preloaded into a server that answers only requests for this machine, such as one that the MCP SDK protects against DNS
 * rebinding: the Host header of each request becomes the name in PIERHEAD_LOCAL_HOST. X-Forwarded-Host keeps the name that the
 * client used. With PIERHEAD_LOCAL_HOST_FOR=paths, it changes only requests whose path the gateway shortened, and removes that
 * name, because the server calls itself at the name in the request, which must be its own.
 *
 * Plain JavaScript, because it is copied beside the server, which may run in an older Node.
 */
const host = (process.env.PIERHEAD_LOCAL_HOST || "localhost:*").replace("*", process.env.PORT || "");
const isForPathsOnly = process.env.PIERHEAD_LOCAL_HOST_FOR === "paths";
const { emit } = Server.prototype;

/**
 * @param {string} event
 * @param {...any} given
 * @returns {boolean}
 * @this {Server}
 */
Server.prototype.emit = function emitWithHost(event, ...given) {
  if (event === "request" || event === "upgrade" || event === "checkContinue") changeHost(given[0]);
  return Reflect.apply(emit, this, [event, ...given]);
};

/** @param {import("node:http").IncomingMessage} request */
function changeHost({ headers, rawHeaders }) {
  if (isForPathsOnly && headers["x-forwarded-prefix"] === undefined) return;
  // The server must still recognize requests of its own pages as same-origin.
  const isOwnOrigin = headers.origin?.replace(/^https?:\/\//, "") === headers.host;
  const values = new Map([
    ["host", host],
    ...(isOwnOrigin ? [/** @type {const} */ (["origin", `http://${host}`])] : []),
  ]);
  const removed = isForPathsOnly ? ["x-forwarded-host", "x-forwarded-proto", "x-forwarded-port"] : [];
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? "";
    const value = values.get(name);
    if (value !== undefined) rawHeaders[at + 1] = value;
    if (removed.includes(name)) rawHeaders.splice(at, 2);
  }
  for (const [name, value] of values) headers[name] = value;
  for (const name of removed) delete headers[name];
}
