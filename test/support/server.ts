import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Client, createClient } from "../../src/client/client.ts";
import { readConfig } from "../../src/server/config.ts";
import { type Server, startServer } from "../../src/server/start.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { templateDirectory } from "./database-template.ts";

export interface TestServer extends AsyncDisposable {
  server: Server;
  client: Client;
  url: string;
  apiKey: string;
  dataDir: string;
  /** Stops the server and starts another one on the same data directory. Agents keep running. */
  restart(environment?: Record<string, string>): Promise<void>;
}

/** Packages and toolchains that test runs share, so that they are downloaded once. */
export const sharedCacheDir = path.resolve("node_modules/.cache/pierhead");

/** Starts a whole server in this process with a temporary data directory. Disposal stops its agents and removes the directory. */
export async function startTestServer(
  environment: Record<string, string> = {},
  { logger = createLogger("silent") } = {},
): Promise<TestServer> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-server-"));
  const databaseTemplateDir = await templateDirectory();
  const start = (changed: Record<string, string> = {}) => {
    const config = readConfig({
      PORT: "0",
      PIERHEAD_DATA_DIR: dataDir,
      PIERHEAD_CACHE_DIR: sharedCacheDir,
      PIERHEAD_DATABASE_TEMPLATE_DIR: databaseTemplateDir,
      PIERHEAD_DRAIN_TIMEOUT_MS: "20000",
      ...environment,
      ...changed,
    });
    return startServer(config, { logger });
  };
  let server = await start();
  const made = {
    get server() {
      return server;
    },
    get url() {
      return server.url;
    },
    get apiKey() {
      return server.credentials.adminKey;
    },
    get client() {
      return createClient({ baseUrl: server.url, apiKey: server.credentials.adminKey });
    },
    dataDir,
    async restart(changed?: Record<string, string>) {
      await server.close();
      server = await start(changed);
    },
    async [Symbol.asyncDispose]() {
      await server.close({ stopReplicas: true });
      await rm(dataDir, { recursive: true, force: true });
    },
  };
  return made;
}
