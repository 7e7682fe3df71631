import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { type Client, createClient } from "../src/client/client.ts";
import { Engine } from "../src/compute/docker/engine/engine.ts";
import { buildAgentImage, importNodeImage } from "../test/docker/base-image.ts";
import { missingForDockerd, startDockerd } from "../test/docker/dockerd.ts";
import { nodeAgent } from "../test/support/agent-repository.ts";
import { freePort } from "../test/support/free-port.ts";
import { remove, settled, timed } from "./deploy.ts";
import { toBeEnded } from "./endings.ts";
import type { BenchRun } from "./installation.ts";
import { type BenchLine, benchLine, median, percentile } from "./line.ts";

const samples = { small: 5, full: 20 };
const warmUps = 1;
const image = "pierhead-bench/agent:1";
const run = promisify(execFile);

/** Measures what Pierhead adds to `docker run` of a local image until its server answers: G5. */
export async function dockerBench(bench: BenchRun): Promise<BenchLine[]> {
  const missing = missingForDockerd();
  if (missing !== null) {
    process.stderr.write(`SKIPPED docker: ${missing}\n`);
    return [];
  }
  const dockerd = await startDockerd();
  const stop = toBeEnded(() => dockerd.stop());
  try {
    const engine = await new Engine(dockerd.host).open();
    await importNodeImage(engine);
    const program = nodeAgent("one")["server.js"]?.replace('"127.0.0.1"', '"0.0.0.0"') ?? "";
    await buildAgentImage(
      engine,
      image,
      `import { createRequire } from "node:module";\nconst require = createRequire("/");${program}`,
    );
    engine.close();
    return await measure(bench, dockerd.host);
  } finally {
    await stop();
  }
}

async function measure(bench: BenchRun, host: string): Promise<BenchLine[]> {
  const kind = bench.kinds[0] ?? "embedded";
  await using installation = await bench.install(kind);
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "docker", DOCKER_HOST: host });
  const api = createClient({ baseUrl: server.url, apiKey: installation.adminKey });
  const taken = { bare: [] as number[], create: [] as number[], redeploy: [] as number[] };
  try {
    const kept = await create(api);
    for (let round = -warmUps; round < samples[bench.size]; round += 1) {
      const bare = await bareRunMs(host);
      const created = await timed(
        () => create(api),
        ({ id }) => remove(api, id),
      );
      const redeployed = await timed(() => redeploy(api, kept));
      if (round < 0) continue;
      taken.bare.push(bare);
      taken.create.push(created);
      taken.redeploy.push(redeployed);
    }
    await remove(api, kept.id);
  } finally {
    await server.stop();
  }
  const line = (name: string, ours: number, floor = median(taken.bare)) =>
    benchLine({ goal: "G5", name: `${name}, on ${kind}`, floor, ours, unit: "ms", target: { ratioMax: 2 } });
  return [
    line("POST to DEPLOYED of an image against `docker run` until its first 200: median", median(taken.create)),
    line("the same: worst against worst", percentile(taken.create, 100), percentile(taken.bare, 100)),
    line("redeploy to DEPLOYED against the same: median", median(taken.redeploy)),
  ];
}

/** Uses the limits of a deployment and a loopback port. */
async function bareRunMs(host: string): Promise<number> {
  const port = await freePort();
  const docker = (...argv: string[]) => run("docker", ["--host", host, ...argv]);
  const limits = ["--memory", "1g", "--memory-swap", "1g", "--cpus", "1", "--pids-limit", "1024", "--cap-drop", "ALL"];
  const place = ["--publish", `127.0.0.1:${port}:8000`, "--env", "PORT=8000", "--env", "HOST=0.0.0.0", "--init"];
  const start = performance.now();
  const { stdout } = await docker("run", "--detach", ...limits, ...place, image);
  while (!(await answers(port))) await sleep(2);
  const tookMs = performance.now() - start;
  await docker("rm", "--force", stdout.trim());
  return tookMs;
}

const answers = (port: number) =>
  fetch(`http://127.0.0.1:${port}/ok`).then(
    ({ status }) => status === 200,
    () => false,
  );

async function create(api: Client): Promise<{ id: string; revisionId: string }> {
  const { id, latest_revision_id: revisionId } = await api.createDeployment({
    body: {
      name: `bench-${randomUUID()}`,
      source: "external_docker",
      source_config: { resource_spec: { cpu: 1, memory_mb: 1024, memory_limit_mb: 1024 } },
      source_revision_config: { image_uri: image },
    },
  });
  await settled(api, id, revisionId as string, "DEPLOYED");
  return { id, revisionId: revisionId as string };
}

async function redeploy(api: Client, { id, revisionId }: { id: string; revisionId: string }): Promise<void> {
  const made = await api.redeployRevision({ deployment_id: id, revision_id: revisionId });
  await settled(api, id, made.latest_revision_id as string, "DEPLOYED");
}
