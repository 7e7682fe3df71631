import assert from "node:assert/strict";
import pg from "pg";
import { ApiFailure, type Client } from "../../src/client/client.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";
import { postgresImage, redisImage } from "./database-images.ts";

/** Image of a prober. */
export const agentImage = "pierhead-test/prober-databases:1";
const sizes = { db_cpu: 0.5, db_cpu_limit: 0.5, db_memory_mb: 128, db_memory_limit_mb: 256, db_max_connections: 20 };
const redisSizes = { redis_cpu: 0.2, redis_cpu_limit: 0.3, redis_memory_mb: 32, redis_memory_limit_mb: 64 };

/** A Pierhead that gives each deployment databases in containers. */
export const startServer = (engine: Engine, environment = {}) =>
  startTestServer({
    PIERHEAD_COMPUTE: "docker",
    DOCKER_HOST: engine.host,
    PIERHEAD_AGENT_DATABASES: "containers",
    PIERHEAD_AGENT_POSTGRES_IMAGE: postgresImage,
    PIERHEAD_AGENT_REDIS_IMAGE: redisImage,
    ...environment,
  });

/** Creates a deployment of `agentImage` with limits for its databases. */
export const bodyOf = (name: string, spec = {}) => ({
  name,
  source: "external_docker" as const,
  source_config: {
    resource_spec: { cpu: 0.5, memory_mb: 128, memory_limit_mb: 128, ...sizes, ...redisSizes, ...spec },
  },
  source_revision_config: { image_uri: agentImage },
});

export async function deploy(client: Client, name: string): Promise<string> {
  const made = await client.createDeployment({ body: bodyOf(name) });
  assert.equal(made.status, "AWAITING_DATABASE");
  await settled(client, made.id, made.latest_revision_id);
  return made.id;
}

export async function settled(client: Client, id: string, revisionId: string | null, status = "DEPLOYED") {
  const revision = await client.waitForRevision(
    { deployment_id: id, revision_id: revisionId as string },
    { timeoutMs: 500_000 },
  );
  assert.equal(revision.status, status, revision.status_message ?? "");
  return revision;
}

/** Runs the body of a function inside an agent. */
export async function inside(client: Client, id: string, code: string) {
  const { url } = await client.getDeployment({ deployment_id: id });
  const answer = await fetch(`${url}/run?of=${encodeURIComponent(code)}`);
  const text = await answer.text();
  return answer.status === 200 ? JSON.parse(text) : { failed: text };
}
export const environmentOf = (client: Client, id: string) => inside(client, id, "return process.env");

export interface Inspected {
  Name: string;
  State: { StartedAt: string };
  HostConfig: Record<string, unknown> & { CapAdd: string[] };
  NetworkSettings: {
    Ports: Record<string, { HostIp: string; HostPort: string }[]>;
    Networks: Record<string, { IPAddress: string }>;
  };
}

export const containerOf = (engine: Engine, uri: string) =>
  engine.callUnless<Inspected>([404], "GET", `/containers/${new URL(uri).hostname}/json`);

/** Queries as the deployment's own user, over the loopback interface of this machine. */
export async function query(engine: Engine, uri: string, text: string): Promise<unknown[]> {
  const at = new URL(uri);
  const { NetworkSettings } = (await containerOf(engine, uri)) as Inspected;
  const { HostIp, HostPort } = NetworkSettings.Ports["5432/tcp"]?.[0] ?? { HostIp: "", HostPort: "" };
  assert.equal(HostIp, "127.0.0.1");
  at.host = `127.0.0.1:${HostPort}`;
  const client = new pg.Client({ connectionString: at.href });
  client.on("error", () => {});
  await client.connect();
  return client
    .query(text)
    .then(({ rows }) => rows)
    .finally(() => client.end());
}

export const gone = (client: Client, id: string) =>
  eventually(
    () =>
      client.getDeployment({ deployment_id: id }).then(
        () => false,
        (error: unknown) => error instanceof ApiFailure && error.status === 404,
      ),
    (isGone) => isGone,
    { what: "404", timeoutMs: 120_000 },
  );
