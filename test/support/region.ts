import { freePort } from "./free-port.ts";
import { type PostgresServer, startPostgresServer } from "./postgres-server.ts";
import { startTestServer, type TestServer } from "./server.ts";

/** A control plane, and a PostgreSQL for its agents. */
export interface Region extends AsyncDisposable {
  server: TestServer;
  postgres: PostgresServer;
}

/** Starts a region. @returns undefined without PostgreSQL */
export async function startRegion(): Promise<Region | undefined> {
  const port = await freePort();
  const postgres = await startPostgresServer({ port });
  if (postgres === undefined) return undefined;
  const server = await startTestServer({
    ...{ PIERHEAD_AGENT_POSTGRES_URL: postgres.url, PIERHEAD_AGENT_POSTGRES_ADDRESS: `127.0.0.1:${port}` },
    PIERHEAD_ALLOW_LOCAL_SOURCES: "1",
  });
  return {
    ...{ server, postgres },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await postgres.stop();
    },
  };
}
