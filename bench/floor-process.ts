import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import pg from "pg";
import { openEmbeddedEngine } from "../src/store/engine/embedded/engine.ts";
import { createLogger } from "../src/telemetry/log.ts";
import { freshValues, type Statement } from "./statement.ts";

/** Options of the floor program, as JSON in its argument. */
export interface FloorSettings {
  databaseUrl: string | undefined;
  /** Directory of the embedded database, used without a URL. */
  dataDir: string;
  read: Statement;
  create: Statement;
}

/**
 * The minimum that a Node program can do: `node:http` and `pg` with named statements, the same rows, no checks, no routing,
 * no logging. GET reads a deployment, POST writes one. Sends its port to the parent once it listens.
 */
const settings = JSON.parse(process.argv[2] ?? "") as FloorSettings;
const { pool, close } = await openPool();
const read = named("read", settings.read);
const create = named("create", settings.create);

const server = createServer(async (request, response) => {
  await request.forEach(() => {});
  const { rows } = await pool.query(request.method === "GET" ? read() : create());
  const body = JSON.stringify(rows[0]);
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  response.writeHead(request.method === "GET" ? 200 : 201, headers).end(body);
});
server.listen(0, "127.0.0.1", () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on("disconnect", () => void close().then(() => process.exit(0)));

function named(name: string, statement: Statement): () => pg.QueryConfig {
  return () => ({ name, text: statement.text, values: freshValues(statement) });
}

async function openPool(): Promise<{ pool: pg.Pool; close(): Promise<void> }> {
  if (settings.databaseUrl !== undefined) {
    const pool = new pg.Pool({ connectionString: settings.databaseUrl, max: 20 });
    return { pool, close: () => pool.end() };
  }
  const engine = await openEmbeddedEngine({
    directory: path.join(settings.dataDir, "database"),
    durable: true,
    templateDirectory: undefined,
    answerTimeoutMs: 30_000,
    logger: createLogger("warn"),
  });
  const session = { user: "postgres", database: "postgres", password: "unused", ssl: false, max: 1 };
  const pool = new pg.Pool({ ...session, idleTimeoutMillis: 0, stream: () => engine.connect() });
  return {
    pool,
    async close() {
      await pool.end();
      await engine.close();
    },
  };
}
