import { createHash } from "node:crypto";
import { withConnection } from "./admin-connection.ts";
import { connectTimeoutMs, type DatabaseServer, serverTimeoutMs, urlFor } from "./database-server.ts";

/** The used part of the library's client. */
interface Redis {
  sendCommand(words: string[]): Promise<unknown>;
}

/** Number of keys per scan. UNLINK frees them in the background. */
const scanCount = "1000";

/**
 * Returns a server that gives each deployment a user on the operator's Redis (>= 6.2, for patterns of channels). The user sees only keys and channels
 * with its own prefix. Redis keeps users in memory: `ensure` before every rollout restores them after its restart.
 * @param options.adminUrl URL of a user that may manage users
 * @param options.address `host:port` of the server for agents; undefined: the one in `adminUrl`
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
 * Key and channel patterns restrict commands that name a key or channel. Commands that reveal others' keys and channels
 * without naming one, or that change shared things (functions, cached scripts), are forbidden; commands inside scripts are
 * restricted again. Categories are removed as a whole and parts allowed again, because Redis 6 has no other way.
 */
const may = [
  "+@all",
  "-@admin",
  "-@dangerous",
  "+info",
  "-scan",
  "-randomkey",
  "-pubsub",
  "+pubsub|numsub",
  "-client",
  "+client|id",
  "+client|getname",
  "+client|setname",
  "+client|info",
  "+client|reply",
  "-@scripting",
  "+eval",
  "+evalsha",
  "+script|load",
  "+script|exists",
];

/** The hash that Redis stores for a password. It is passed instead of the password, so that no log contains it. */
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

/** Opens one connection for one task. The library is loaded only when it is needed. */
async function asAdmin(admin: URL, signal: AbortSignal, act: (client: Redis) => Promise<void>): Promise<void> {
  const { createClient } = await import("@redis/client");
  const client = createClient({
    url: admin.href,
    socket: { connectTimeout: connectTimeoutMs, reconnectStrategy: false, socketTimeout: serverTimeoutMs },
    disableOfflineQueue: true,
  });
  client.on("error", () => {});
  const connection = { open: () => client.connect(), close: () => client.destroy() };
  await withConnection({ kind: "Redis", url: admin }, connection, signal, () => act(client));
}
