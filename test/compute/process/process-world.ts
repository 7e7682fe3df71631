import assert from "node:assert/strict";
import { mkdtemp, readFile, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { ReplicaExit, ReplicaSpec, ReplicaState } from "../../../src/compute/compute.ts";
import { openProcessCompute, type ProcessComputeDriver } from "../../../src/compute/process/process-compute.ts";
import { dataDirIdOf } from "../../../src/compute/process/replicas/replica-files.ts";
import { findCgroups, listCgroups } from "../../../src/compute/process/system/cgroup.ts";
import { findProcesses, type ProcessIdentity } from "../../../src/compute/process/system/processes.ts";
import type { Artifact } from "../../../src/contract/listeners/assignment.ts";
import { createLogger } from "../../../src/telemetry/log.ts";
import { agents, writeAgent } from "../agents.ts";
import { ComputeWorld, soon } from "../compute-world.ts";
import { anySpec } from "../conformance.ts";

/** A data directory with a process driver, and agents to run. Its end leaves nothing running. */
export class ProcessWorld extends ComputeWorld implements AsyncDisposable {
  readonly root: string;
  compute: ProcessComputeDriver;

  private constructor(root: string, compute: ProcessComputeDriver) {
    super();
    this.root = root;
    this.compute = compute;
  }

  static async open(): Promise<ProcessWorld> {
    const root = await realpath(await mkdtemp(path.join(tmpdir(), "pierhead-compute-")));
    return new ProcessWorld(root, await ProcessWorld.#openCompute(root));
  }

  static #openCompute(root: string) {
    return openProcessCompute({
      dataDir: path.join(root, "data"),
      logger: createLogger("error"),
      nodePath: process.execPath,
    });
  }

  get dataDir(): string {
    return path.join(this.root, "data");
  }

  directoryOf(spec: ReplicaSpec): string {
    return path.join(this.dataDir, "replicas", spec.replicaId);
  }

  /** Closes the driver and opens another one, like a restart of the server. `between` runs while none is open. */
  async reopen(between?: () => Promise<unknown>): Promise<void> {
    await this.compute.close();
    await between?.();
    this.compute = await ProcessWorld.#openCompute(this.root);
  }

  async agent(kind: keyof typeof agents, changes: Partial<ReplicaSpec> = {}): Promise<ReplicaSpec> {
    return this.spec(await writeAgent(path.join(this.root, kind), agents[kind]), changes);
  }

  spec(artifact: Artifact, changes: Partial<ReplicaSpec> = {}): ReplicaSpec {
    return { ...anySpec(artifact), ...changes };
  }

  /** Kills the agent server from outside, as the kernel does when memory runs out. */
  async kill(spec: ReplicaSpec): Promise<ReplicaExit> {
    const record = await readFile(path.join(this.directoryOf(spec), "replica.json"), "utf8");
    const { pid } = (JSON.parse(record) as { process: ProcessIdentity }).process;
    process.kill(pid, "SIGKILL");
    const exit = await this.exits(spec);
    await this.remove(spec);
    return exit;
  }

  /** Expects that the agent server exits before it is ready, with its cause in the last line. */
  async failsToStart(spec: ReplicaSpec, cause: RegExp): Promise<ReplicaExit> {
    await this.compute.ensure(spec, soon());
    const exit = await this.exits(spec);
    assert.equal(exit.reason, "Exited");
    assert.equal(exit.exitCode, 1);
    assert.match(exit.message, /before it was ready/);
    assert.match([exit.message, ...exit.lastLines].join("\n"), cause);
    await this.remove(spec);
    return exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.removeAll();
    await this.compute.close();
    await assertNothingLeft(this.dataDir);
    await rm(this.root, { recursive: true, force: true });
  }
}

/** Asserts that no process and no cgroup of a data directory is left. */
export async function assertNothingLeft(dataDir: string): Promise<void> {
  const dataDirId = await dataDirIdOf(dataDir);
  if (process.platform === "linux") assert.deepEqual(await findProcesses({ dataDirId }), []);
  const cgroups = await findCgroups(`pierhead-${dataDirId}-probe`);
  assert.deepEqual([...(await listCgroups(cgroups, `pierhead-${dataDirId}-`)).keys()], []);
}

/** Sends a GET to a replica; undefined when it does not answer completely. */
export async function ask(state: ReplicaState, target: string): Promise<string | undefined> {
  return fetch(`http://${state.address?.host}:${state.address?.port}${target}`)
    .then((response) => response.text())
    .catch(() => undefined);
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
