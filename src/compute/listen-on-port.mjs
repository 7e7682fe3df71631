import { readFileSync, writeFileSync } from "node:fs";
import { Server } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

/**
 * Preloaded into a server that reads no PORT: the first port that it opens becomes the one in PORT, at the address in HOST.
 * Many servers open it twice, because they first look whether it is free.
 * Without it, nothing reaches the server in a container, and as a process it is in the way of its next revision and of
 * every other server with the same port.
 *
 * Plain JavaScript, because it is copied beside the server, which may run in an older Node.
 */
const port = Number(process.env.PORT);
const host = process.env.HOST || "0.0.0.0";
const { listen } = Server.prototype;
/** @type {number | null} the first port that the program wanted */
let first = null;
let isOpen = false;

/**
 * @param {...any} given
 * @returns {Server}
 * @this {Server}
 */
Server.prototype.listen = function listenOnPort(...given) {
  const wanted = portIn(given[0]);
  const isOther = isOpen || (first !== null && wanted !== first);
  if (isOther || wanted === null || !(port > 0)) return Reflect.apply(listen, this, given);
  first = wanted;
  isOpen = true;
  this.once("close", () => {
    isOpen = false;
  });
  if (!takePort() || wanted === port) return Reflect.apply(listen, this, given);
  const onListening = given.filter((one) => typeof one === "function").at(-1);
  const options = typeof given[0] === "object" ? given[0] : {};
  return Reflect.apply(listen, this, [{ ...options, port, host }, ...(onListening === undefined ? [] : [onListening])]);
};

/**
 * @param {unknown} first argument of `listen`
 * @returns {number | null} null for a socket file, and for any free port
 */
function portIn(first) {
  const wanted = typeof first === "object" && first !== null && "port" in first ? first.port : first;
  const isPort = typeof wanted === "number" || (typeof wanted === "string" && /^\d+$/.test(wanted));
  return isPort && Number(wanted) > 0 ? Number(wanted) : null;
}

/** Returns whether this process is the first of the server's processes that opens a port. The others keep their own ports. */
function takePort() {
  // The workers of a cluster share one port.
  if (process.env.NODE_UNIQUE_ID !== undefined) return true;
  const file = path.join(tmpdir(), `pierhead-port-${port}`);
  try {
    writeFileSync(file, identify(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") return true;
  }
  try {
    const owner = readFileSync(file, "utf8");
    if (owner !== identify(process.pid) && isRunning(owner)) return false;
    writeFileSync(file, identify(process.pid));
  } catch {
    // Without the file, each process decides for itself.
  }
  return true;
}

/**
 * Returns the id of a process, on Linux with its start time: a container that starts again has the same ids for other processes
 * and threads, and may have kept its temporary files.
 * @param {number} pid
 */
function identify(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return `${pid} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]}`;
  } catch {
    return String(pid);
  }
}

/** @param {string} owner as `identify` returned it */
function isRunning(owner) {
  const pid = Number.parseInt(owner, 10);
  try {
    return pid > 0 && process.kill(pid, 0) && identify(pid) === owner;
  } catch {
    return false;
  }
}
