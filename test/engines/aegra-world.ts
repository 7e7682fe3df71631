import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import type { EngineChoice } from "../../src/contract/deployments/deployment.ts";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import { startRedisServer } from "../provision/redis-server.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import { startTestServer } from "../support/server.ts";
import { newJournal } from "./replicas.ts";

/** Longer than a cold install of the packages on a loaded machine. Not a measurement. */
export const timeoutMs = 400_000;

const graphs = ["steps", "approval", "failing", "memory", "chat", "branches", "unreachable", "billed"];

/** A server that gives its deployments a PostgreSQL and a Redis, and a repository with the agent of the tests in Python. */
export async function startAegraWorld({ durable = false } = {}) {
  const port = await freePort();
  const postgres = await startPostgresServer({ port, durable });
  const redis = await startRedisServer();
  const journal = newJournal();
  const pierhead = await startTestServer({
    PIERHEAD_AGENT_POSTGRES_URL: postgres?.url ?? "",
    PIERHEAD_AGENT_POSTGRES_ADDRESS: `127.0.0.1:${port}`,
    PIERHEAD_AGENT_REDIS_URL: redis.url,
  });
  const repository = await createAgentRepository({
    "agent.py": await readFile(path.join(import.meta.dirname, "aegra-agent/agent.py"), "utf8"),
    "requirements.txt": "langgraph\n",
    "langgraph.json": JSON.stringify({
      engine: "aegra",
      python_version: "3.12",
      dependencies: ["."],
      // The settings of the server come before those of the agent.
      env: { JOURNAL: journal, DATABASE_URL: "postgresql://127.0.0.1:1/agent", DEBUG: "agent:*" },
      graphs: Object.fromEntries(graphs.map((name) => [name, `./agent.py:${name}`])),
    }),
  });
  const { client } = pierhead;
  const create = (name: string, engine: EngineChoice | null, replicas: number) =>
    client.createDeployment({
      body: {
        name,
        source: "github",
        source_config: {
          repo_url: repository.url,
          deployment_type: "prod",
          build_on_push: false,
          engine,
          resource_spec: { min_scale: replicas, max_scale: replicas },
        },
        source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
      },
    });
  const replicasOf = async (deploymentId: string) => {
    const report = (await client.debugDeployment({ deployment_id: deploymentId })).observed as DeploymentReport | null;
    return report?.replicas.filter(({ phase }) => phase === "ready") ?? [];
  };
  return {
    pierhead,
    repository,
    journal,
    postgresUrl: postgres?.url ?? "",
    redisUrl: redis.url,
    create,
    replicasOf,
    /** Deploys the agent as one replica on an engine. @returns the address of the replica */
    async deployed(engine: EngineChoice) {
      const { id, latest_revision_id } = await create(`agent-${engine}`, engine, 1);
      const of = { deployment_id: id, revision_id: String(latest_revision_id) };
      const revision = await client.waitForRevision(of, { timeoutMs });
      assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
      const [replica] = await eventually(
        () => replicasOf(id),
        (ready) => ready.length === 1,
        { what: "a replica" },
      );
      return { url: `http://${replica?.address}` };
    },
    async [Symbol.asyncDispose]() {
      await pierhead[Symbol.asyncDispose]();
      await repository[Symbol.asyncDispose]();
      await redis.stop();
      await postgres?.stop();
    },
  };
}
