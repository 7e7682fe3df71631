import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { ReplicaSpec, ReplicaState } from "../../src/compute/compute.ts";
import {
  type DockerComputeDriver,
  type DockerComputeOptions,
  openDockerCompute,
} from "../../src/compute/docker/docker-compute.ts";
import { Engine } from "../../src/compute/docker/engine/engine.ts";
import type { Artifact } from "../../src/contract/listeners/assignment.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { agents } from "../compute/agents.ts";
import { ComputeWorld } from "../compute/compute-world.ts";
import { anySpec } from "../compute/conformance.ts";
import { buildAgentImage, importNodeImage } from "./base-image.ts";
import { type Dockerd, startQuietDockerd } from "./dockerd.ts";

/** An installation in an engine, with a driver. Its end leaves nothing behind. */
export class DockerWorld extends ComputeWorld implements AsyncDisposable {
  readonly engine: Engine;
  readonly options: DockerComputeOptions;
  compute: DockerComputeDriver;

  private constructor(engine: Engine, options: DockerComputeOptions, compute: DockerComputeDriver) {
    super();
    this.engine = engine;
    this.options = options;
    this.compute = compute;
  }

  static async open(engine: Engine, changes: Partial<DockerComputeOptions> = {}): Promise<DockerWorld> {
    const options = await worldOptions(engine, changes);
    return new DockerWorld(engine, options, await openDockerCompute(options));
  }

  /** Closes the driver and opens another one, like a restart of the server. `between` runs while none is open. */
  async reopen(between?: () => Promise<unknown>): Promise<void> {
    await this.compute.close();
    await between?.();
    this.compute = await openDockerCompute(this.options);
  }

  async agent(kind: keyof typeof agents, changes: Partial<ReplicaSpec> = {}): Promise<ReplicaSpec> {
    return { ...anySpec(await agentArtifact(this.engine, kind)), ...changes };
  }

  /** Inspects the container of a replica. */
  async inspect(spec: ReplicaSpec): Promise<Inspected> {
    const name = `pierhead-${this.options.installationId.slice(0, 8)}-${spec.replicaId}`;
    return this.engine.call<Inspected>("GET", `/containers/${name}/json`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { deploymentId } of await this.removeAll()) await this.compute.removeState(deploymentId);
    await this.compute.close();
    await assertNothingLeft(this.engine, this.options);
  }
}

/** Starts an engine for one test, with a world in it. `pool`: address range of its networks. */
export async function withQuietDockerd(
  { flags = [], pool }: { flags?: string[]; pool?: string },
  act: (dockerd: Dockerd, world: DockerWorld) => Promise<void>,
): Promise<void> {
  const dockerd = await startQuietDockerd(flags, pool);
  const engine = await new Engine(dockerd.host).open();
  try {
    await importNodeImage(engine);
    await using world = await DockerWorld.open(engine);
    await act(dockerd, world);
  } finally {
    engine.close();
    await dockerd.stop();
  }
}

/** The fields that tests read. */
export interface Inspected {
  Id: string;
  Config: { Image: string; Env: string[]; Labels: Record<string, string> };
  HostConfig: Record<string, unknown>;
  NetworkSettings: { Networks: Record<string, { IPAddress: string }> };
}

export async function worldOptions(engine: Engine, changes: Partial<DockerComputeOptions> = {}) {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-docker-"));
  const logger = createLogger("error");
  return { host: engine.host, dataDir, installationId: randomUUID(), logger, ...changes };
}

/** Artifact of an image with one of the small agents, built once per engine. */
export async function agentArtifact(engine: Engine, kind: keyof typeof agents): Promise<Artifact> {
  const name = `pierhead-test/${kind.toLowerCase()}:1`;
  const isThere = (await engine.callUnless([404], "GET", `/images/${name}/json`)) !== undefined;
  if (!isThere) await buildAgentImage(engine, name, agents[kind]);
  return { kind: "image", digest: name, uri: name, health_path: "/ok", rollout: "rolling" };
}

/** Asserts that no container, network, volume or journal entry of an installation is left, and removes its directory. */
export async function assertNothingLeft(engine: Engine, { installationId, dataDir }: DockerComputeOptions) {
  const query = { filters: { label: [`pierhead.dev/installation=${installationId}`] }, all: true };
  assert.deepEqual(await engine.call("GET", "/containers/json", { query }), []);
  assert.deepEqual(await engine.call("GET", "/networks", { query }), []);
  assert.deepEqual((await engine.call<{ Volumes: unknown[] | null }>("GET", "/volumes", { query })).Volumes ?? [], []);
  await rm(dataDir, { recursive: true });
}

/** Sends a GET to a replica; undefined when it does not answer completely. */
export async function ask(state: ReplicaState, target: string): Promise<string | undefined> {
  return fetch(`http://${state.address?.host}:${state.address?.port}${target}`)
    .then((response) => response.text())
    .catch(() => undefined);
}
