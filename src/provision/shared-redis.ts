import { createHash } from "node:crypto";
import {
  connectTimeoutMs,
  type DatabaseServer,
  DatabaseServerError,
  displayAddress,
  serverTimeoutMs,
  urlFor,
} from "./database-server.ts";

/** What is used of the library's client. */
interface Redis {
  sendCommand(words: string[]): Promise<unknown>;
}

/** Keys that one scan looks at; UNLINK frees them in the background. */
const scanCount = "1000";

/**
 * A Redis server (>= 6) of the operator's, on which every deployment gets a user that sees keys and channels of its own
 * prefix only. Users live in the server's memory: `ensure` before every rollout brings them back after its restart.
 * @param options.adminUrl of a user that may manage users.
 * @param options.address `host:port` under which agents reach the server; undefined: as we do.
 */
export function sharedRedis(options: { adminUrl: string; address: string | undefined }): DatabaseServer {
  const admin = new URL(options.adminUrl);
  return {
    async ensure({ name, password }, _limits, signal) {
      const only = [`~${prefixOf(name)}*`, `&${prefixOf(name)}*`];
      await asAdmin(admin, signal, async (client) => {
        await client.sendCommand(["ACL", "SETUSER", name, "reset", "on", `#${sha256(password)}`, ...only, ...may]);
      });
    },
    async remove(name, signal) {
      await asAdmin(admin, signal, async (client) => {
        await client.sendCommand(["ACL", "DELUSER", name]);
        await unlinkAll(client, `${prefixOf(name)}*`, signal);
      });
    },
    environment({ name, password }) {
      const uri = urlFor(admin, { username: name, password, path: admin.pathname, address: options.address });
      return { REDIS_URI: uri, REDIS_KEY_PREFIX: prefixOf(name) };
    },
  };
}

/**
 * Patterns of keys and channels bind commands that name one. Those that name none and yet tell of others' keys and channels,
 * or change what all share (functions, kept scripts), are taken away; what scripts name is bound again. Taken as a whole and
 * given in parts, because Redis 6 knows no other way.
 */
const may = [
  ...["+@all", "-@admin", "-@dangerous", "+info"],
  ...["-scan", "-randomkey", "-pubsub", "+pubsub|numsub"],
  ...["-client", "+client|id", "+client|getname", "+client|setname", "+client|info", "+client|reply"],
  ...["-@scripting", "+eval", "+evalsha", "+script|load", "+script|exists"],
];

/** What Redis keeps of a password; given in its place, so that no log of the server ever contains it. */
const sha256 = (password: string) => createHash("sha256").update(password).digest("hex");

const prefixOf = (name: string) => `${name}:`;

async function unlinkAll(client: Redis, pattern: string, signal: AbortSignal): Promise<void> {
  let cursor = "0";
  do {
    signal.throwIfAborted();
    const page = await client.sendCommand(["SCAN", cursor, "MATCH", pattern, "COUNT", scanCount]);
    const [next, keys] = page as [string, string[]];
    if (keys.length > 0) await client.sendCommand(["UNLINK", ...keys]);
    cursor = next;
  } while (cursor !== "0");
}

/** One connection for one task; the library is loaded by those alone who use it. */
async function asAdmin(admin: URL, signal: AbortSignal, act: (client: Redis) => Promise<void>): Promise<void> {
  const { createClient } = await import("@redis/client");
  signal.throwIfAborted();
  const client = createClient({
    url: admin.href,
    socket: { connectTimeout: connectTimeoutMs, reconnectStrategy: false, socketTimeout: serverTimeoutMs },
    disableOfflineQueue: true,
  });
  client.on("error", () => {});
  const onAbort = () => client.destroy();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await client.connect();
    await act(client);
  } catch (error) {
    signal.throwIfAborted();
    const reason = error instanceof Error ? error.message || (error as NodeJS.ErrnoException).code : String(error);
    throw new DatabaseServerError(`Redis at ${displayAddress(admin)}: ${reason}`, { cause: error });
  } finally {
    signal.removeEventListener("abort", onAbort);
    if (client.isOpen) client.destroy();
  }
}
