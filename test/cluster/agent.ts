/** The program of an agent that reaches its own PostgreSQL and Redis. */
export const agentProgram = (version: string) => `
import { createServer } from "node:http";
import { connect } from "node:net";
const version = ${JSON.stringify(version)};
const stores = {
  async "/postgres"() {
    const { default: pg } = await import("pg");
    const client = new pg.Client({ connectionString: process.env.POSTGRES_URI });
    await client.connect();
    const { rows } = await client.query("select current_user || ' ' || (select setting from pg_settings where name = 'max_connections') as answer");
    await client.end();
    return rows[0].answer;
  },
  async "/visits"() {
    const { default: pg } = await import("pg");
    const client = new pg.Client({ connectionString: process.env.POSTGRES_URI });
    await client.connect();
    await client.query("create table if not exists visits (at timestamptz)");
    await client.query("insert into visits values (now())");
    const { rows } = await client.query("select count(*) as count from visits");
    await client.end();
    return rows[0].count;
  },
  async "/redis"() {
    const { createClient } = await import("@redis/client");
    const client = createClient({ url: process.env.REDIS_URI });
    await client.connect();
    await client.set("key", "value of " + version);
    const answer = await client.get("key");
    client.destroy();
    return answer;
  },
};
const server = createServer(async (request, response) => {
  if (request.url === "/crash") throw new Error("out of tokens");
  if (request.url === "/fill-memory") for (const held = []; ; ) held.push(Buffer.alloc(16_777_216, 1));
  const [, host, port] = /^\\/connect\\/([^/]+)\\/(\\d+)$/.exec(request.url) ?? [];
  if (host !== undefined) {
    const socket = connect({ host, port: Number(port), timeout: 3_000 });
    const said = (text) => () => (socket.destroy(), response.end(text));
    return void socket.once("connect", said("open")).once("timeout", said("closed")).once("error", said("closed"));
  }
  if (request.url === "/unhealthy") return void response.writeHead(503).end();
  const store = stores[request.url];
  if (store === undefined) return void setTimeout(() => response.end(version), 50);
  try {
    response.end(String(await store()));
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});
process.on("SIGTERM", () => server.close(() => process.exit(0)));
server.listen(8000);
console.log("agent " + version + " listens");
`;

export const crashingProgram = `
console.error("the model is not configured");
process.exit(3);
`;

/** Gets ready, and ends before it counts as available. */
export const shortLivedProgram = `
import { createServer } from "node:http";
createServer((request, response) => response.end("short")).listen(8000);
setTimeout(() => {
  console.error("the licence has ended");
  process.exit(4);
}, 3_000);
`;
