import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Client, createClient } from "../src/client/client.ts";
import { type AgentRepository, createAgentRepository, nodeAgent } from "../test/support/agent-repository.ts";
import { remove, settled } from "./deploy.ts";
import type { BenchRun, BenchServer } from "./installation.ts";
import { type BenchLine, benchLine, median } from "./line.ts";

/** A cold build downloads everything from a package registry, so `small` leaves it out. */
const rounds = { small: 0, full: 3 };
const again = { small: 1, full: 10 };

const example = "examples/hello-agent";

/** Measures how often an unchanged source is rebuilt, and what a repeated build saves: G12. */
export async function buildsBench(run: BenchRun): Promise<BenchLine[]> {
  const lines = [await unchangedLine(run)];
  const taken: { coldMs: number; warmMs: number }[] = [];
  for (let round = 0; round < rounds[run.size]; round += 1) taken.push(await coldAndWarm(run));
  if (taken.length === 0) return lines;
  return [
    ...lines,
    benchLine({
      goal: "G12",
      name: "build of a changed line of hello-agent, against its first build with empty caches",
      floor: median(taken.map(({ coldMs }) => coldMs)),
      ours: median(taken.map(({ warmMs }) => warmMs)),
      unit: "ms",
      target: { ratioMax: 0.2 },
    }),
  ];
}

async function unchangedLine(run: BenchRun): Promise<BenchLine> {
  await using repository = await createAgentRepository(nodeAgent("one"));
  const count = again[run.size];
  let builds = 0;
  await onServer(run, {}, async (api, server) => {
    const commit = await repository.commit({});
    const first = await deploy(api, repository, { commit, config: "pierhead.json" });
    const before = await countBuilds(server);
    for (let index = 0; index < count; index += 1) {
      const redeployed = await api.redeployRevision({ deployment_id: first.id, revision_id: first.revisionId });
      await settled(api, first.id, redeployed.latest_revision_id as string, "DEPLOYED");
      // A commit with the same content in another deployment.
      const other = await deploy(api, repository, { commit: await repository.commit({}), config: "pierhead.json" });
      await remove(api, other.id);
    }
    builds = (await countBuilds(server)) - before;
  });
  return benchLine({
    goal: "G12",
    name: `builds of ${2 * count} rollouts of a source that was built before: redeploys, and commits without a change`,
    floor: null,
    ours: builds,
    unit: "builds",
    target: { oursMax: 0 },
  });
}

async function coldAndWarm(run: BenchRun): Promise<{ coldMs: number; warmMs: number }> {
  const files: Record<string, string> = {};
  for (const name of await readdir(example, { recursive: true })) {
    if (/\.(json|ts)$/.test(name) && !name.includes("node_modules")) {
      files[name] = await readFile(path.join(example, name), "utf8");
    }
  }
  await using repository = await createAgentRepository(files);
  const cacheDir = await mkdtemp(path.join(tmpdir(), "pierhead-bench-cache-"));
  const took: number[] = [];
  try {
    await onServer(run, { PIERHEAD_CACHE_DIR: cacheDir }, async (api, server) => {
      for (const change of ["", "\n// Changed.\n"]) {
        const commit = await repository.commit({ "src/agent.ts": `${files["src/agent.ts"]}${change}` });
        const { id, revisionId } = await deploy(api, repository, { commit, config: "langgraph.json" });
        const { ms } = await server.row<{ ms: number }>(
          `select extract(epoch from finished_at - started_at)::float8 * 1000 as ms from builds where revision_id = '${revisionId}'`,
        );
        took.push(ms);
        await remove(api, id);
      }
    });
  } finally {
    await rm(cacheDir, { recursive: true, force: true, maxRetries: 3 });
  }
  const [coldMs, warmMs] = took as [number, number];
  return { coldMs, warmMs };
}

async function onServer(
  run: BenchRun,
  environment: Record<string, string>,
  act: (api: Client, server: BenchServer) => Promise<void>,
): Promise<void> {
  await using installation = await run.install(run.kinds[0] ?? "embedded");
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "process", ...environment });
  const api = createClient({ baseUrl: server.url, apiKey: installation.adminKey });
  try {
    await act(api, server);
  } finally {
    for await (const { id } of api.all("listDeployments")) await remove(api, id);
    await server.stop();
  }
}

async function countBuilds(server: BenchServer): Promise<number> {
  return (await server.row<{ count: number }>("select count(*)::int as count from builds")).count;
}

/** With empty caches a build may take minutes. */
const buildTimeoutMs = 600_000;

async function deploy(
  api: Client,
  { url }: AgentRepository,
  { commit, config }: { commit: string; config: string },
): Promise<{ id: string; revisionId: string }> {
  const made = await api.createDeployment({
    body: {
      name: `bench-${randomUUID()}`,
      source: "github",
      source_config: { repo_url: url, deployment_type: "prod", build_on_push: false },
      source_revision_config: { repo_ref: commit, langgraph_config_path: config },
    },
  });
  const revisionId = made.latest_revision_id as string;
  await settled(api, made.id, revisionId, "DEPLOYED", buildTimeoutMs);
  return { id: made.id, revisionId };
}
