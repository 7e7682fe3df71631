import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { type Engine, EngineError } from "../../compute/docker/engine/engine.ts";
import { ImageTooLarge } from "../../compute/docker/images/inspect-image.ts";
import { processesMax } from "../../compute/docker/replicas/container.ts";
import { BuildFailure, ProgramFailure } from "../failure.ts";
import { LineSplitter } from "../worker/build-log.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { containersOn, LayerSizes, watchContainers } from "./build-disk.ts";
import type { OpenTarget } from "./build-network.ts";
import type { Instruction } from "./dockerfile.ts";

export interface EngineBuild {
  /** Tar of the build context. */
  context: Readable;
  /** Path of the Dockerfile in the context. */
  dockerfile: string;
  tag: string;
  /** Labels of the finished image. */
  labels: Record<string, string>;
  /** One per step of a generated Dockerfile; null: the Dockerfile is the project's own. */
  instructions: Instruction[] | null;
  /** The engine's network of the build, and the limits of each program that runs in it, including its child processes. */
  target: Pick<OpenTarget, "network" | "canLimitProcesses" | "memoryMib" | "cpuCores">;
  diskBytesMax: number;
  /** The instruction that must follow every `FROM`; null: the build runs nothing of a workspace. */
  stageLabel: string | null;
  /** False: no step of an earlier build may be used again. */
  mayUseCache: boolean;
}

/** One progress message of the engine's build. */
interface Progress {
  stream?: string;
  error?: string;
  errorDetail?: { code?: number };
  aux?: { ID?: string };
}

const mib = 1024 * 1024;

/** Period of the CPU quota: the kernel's default. */
const cpuPeriodUs = 100_000;

/**
 * Builds an image in the engine and writes its output to the build log. When the signal aborts, or this process dies, the
 * connection closes, and the engine then kills the running step and removes what it has created.
 * @returns the id of the image.
 * @throws BuildFailure with the reason of the instruction that failed and its last lines.
 */
export async function buildInEngine(engine: Engine, build: EngineBuild, context: BuildContext): Promise<string> {
  const { memoryMib, cpuCores, network } = build.target;
  const query = {
    t: build.tag,
    dockerfile: build.dockerfile,
    labels: build.labels,
    buildargs: proxiesOf(context.env),
    networkmode: network,
    nocache: !build.mayUseCache,
    rm: true,
    forcerm: true,
    memory: memoryMib * mib,
    memswap: memoryMib * mib,
    cpuperiod: cpuPeriodUs,
    cpuquota: Math.round(cpuCores * cpuPeriodUs),
  };
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const limits = new ProcessLimits(engine, network, signal);
  const steps = new StepLog(build, context, () => {
    if (build.target.canLimitProcesses) limits.apply().catch((error: unknown) => stop.abort(error));
  });
  const watch = watchContainers(engine, network, build.diskBytesMax, (failure) => stop.abort(failure));
  const layers = new LayerSizes(engine, build.diskBytesMax);
  let imageId = "";
  try {
    const progress = engine.values<Progress>("POST", "/build", { query, body: build.context, signal });
    for await (const { stream, error, errorDetail, aux } of progress) {
      if (stream !== undefined) steps.write(stream);
      if (aux?.ID !== undefined) imageId = aux.ID;
      for (const made of steps.takeImages()) await layers.add(made);
      if (error !== undefined) throw steps.failure(error, errorDetail?.code, memoryMib);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof EngineError || error instanceof ImageTooLarge)
      throw steps.failure(error.message, undefined, memoryMib);
    throw error;
  } finally {
    clearInterval(watch);
  }
  if (imageId === "") throw new BuildFailure("BuilderFailed", "The container engine ended the build without a word.");
  return imageId;
}

/** Returns the proxy variables. Every Dockerfile can use them without declaring them, and the cache does not compare them. */
function proxiesOf(env: Record<string, string>): Record<string, string> {
  const names = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"];
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

/** The engine may not have finished creating or removing a container. */
const limitAttempts = { max: 20, everyMs: 100 };

/** Limits the processes of each container of a build once. */
class ProcessLimits {
  readonly #engine: Engine;
  readonly #network: string;
  readonly #signal: AbortSignal;
  readonly #limited = new Set<string>();
  #isApplying = false;
  #isDue = false;

  constructor(engine: Engine, network: string, signal: AbortSignal) {
    this.#engine = engine;
    this.#network = network;
    this.#signal = signal;
  }

  /**
   * Limits the containers that exist now. A call during another one makes that one look once more, so a build that prints
   * many lines causes few calls.
   * @throws BuildFailure `BuilderFailed` when a container exists and cannot be limited
   */
  async apply(): Promise<void> {
    this.#isDue = true;
    if (this.#isApplying) return;
    this.#isApplying = true;
    try {
      while (this.#isDue && !this.#signal.aborted) {
        this.#isDue = false;
        await this.#limitNew();
      }
    } finally {
      this.#isApplying = false;
    }
  }

  /** Waits a moment for a new container: the engine may announce it before it lists it. A short one may be gone already. */
  async #limitNew(): Promise<void> {
    for (let attempt = 0; attempt < newContainerLooks.max; attempt++) {
      const found = await containersOn(this.#engine, this.#network, this.#signal);
      const added = found.filter((id) => !this.#limited.has(id));
      for (const id of added) {
        this.#limited.add(id);
        await limitProcesses(this.#engine, id, this.#signal);
      }
      if (added.length > 0) return;
      await sleep(newContainerLooks.everyMs, undefined, { signal: this.#signal });
    }
  }
}

const newContainerLooks = { max: 10, everyMs: 50 };

/**
 * Limits the number of processes in a container of the build. The engine's build API has no such limit. The engine names
 * the container before it starts it, so the limit applies from the start or a few milliseconds later.
 * @throws BuildFailure `BuilderFailed` when the container exists and cannot be limited
 */
async function limitProcesses(engine: Engine, containerId: string, signal: AbortSignal): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await engine.callUnless([404], "POST", `/containers/${containerId}/update`, {
        body: { PidsLimit: processesMax },
        signal,
      });
      return;
    } catch (error) {
      if (signal.aborted) return;
      // The container of an instruction that runs nothing is gone within milliseconds.
      const found = await engine.callUnless([404], "GET", `/containers/${containerId}/json`, { signal });
      if (found === undefined) return;
      if (attempt === limitAttempts.max) {
        const why = error instanceof Error ? error.message : String(error);
        throw new BuildFailure("BuilderFailed", `The container engine does not limit the processes of a build: ${why}`);
      }
      await sleep(limitAttempts.everyMs, undefined, { signal });
    }
  }
}

/** Converts the engine's progress to lines of the build log and tracks the current instruction. */
class StepLog {
  readonly #build: Pick<EngineBuild, "instructions" | "stageLabel">;
  readonly #context: BuildContext;
  readonly #onContainer: () => void;
  readonly #splitter = new LineSplitter((line) => this.#read(line));
  #current: Instruction | null = null;
  #shown = "the first instruction";
  /** The current instruction is the label of a stage, which is not in the project's Dockerfile. */
  #isOwn = false;
  /** The `FROM` of a stage that has no label yet. */
  #unlabelled: string | null = null;
  #images: string[] = [];

  constructor(build: Pick<EngineBuild, "instructions" | "stageLabel">, context: BuildContext, onContainer: () => void) {
    this.#build = build;
    this.#context = context;
    this.#onContainer = onContainer;
  }

  write(text: string): void {
    this.#splitter.write(Buffer.from(text));
  }

  /** Returns the ids of the images that the output has named since the last call. */
  takeImages(): string[] {
    return this.#images.splice(0);
  }

  /** @param code exit code of the program that failed; undefined: the failure was not a program's. */
  failure(message: string, code: number | undefined, memoryMib: number): BuildFailure {
    this.#splitter.end();
    const lines = this.#context.log.lastLines(15).map((line) => line.slice(0, 400));
    const runs = this.#current?.runs ?? null;
    const reason = runs?.reason ?? "BuildFailed";
    if (/no space left on device/i.test(message)) return new BuildFailure("DiskFull", engineDiskFull);
    if (/requires BuildKit|unknown flag: (mount|link|network|security)|heredoc/i.test(message)) {
      return new BuildFailure(
        "Unsupported",
        `The Dockerfile needs BuildKit, which is not used here: ${message}. ${advice}`,
      );
    }
    if (code === undefined) return new BuildFailure(reason, `${this.#shown}: ${message}`);
    const killed = code === 137 ? `, probably because it needed more than the ${memoryMib} MiB a build may use` : "";
    const said = lines.length === 0 ? "It printed nothing." : `Last lines:\n${lines.join("\n")}`;
    const ended = `\`${runs?.shown ?? this.#shown}\` ended with exit code ${code}${killed}. ${said}`;
    return new ProgramFailure(reason, ended, code);
  }

  #read(line: string): void {
    const [, number, text] = /^Step (\d+)\/\d+ : (.*)$/.exec(line) ?? [];
    const { log } = this.#context;
    if (number !== undefined) {
      this.#checkLabel(text ?? "");
      this.#current = this.#build.instructions?.[Number(number) - 1] ?? null;
      this.#shown = text ?? "";
      log.forgetLastLines();
      this.#isOwn = text === this.#build.stageLabel;
      if (this.#isOwn) return;
      const runs = this.#current?.runs;
      if (runs?.printsPrograms === true) return;
      log.say(runs == null ? `> ${text}` : `$ ${runs.shown}`);
      return;
    }
    if (/^ ---> Running in [0-9a-f]+$/.test(line)) {
      this.#onContainer();
    } else if (line === " ---> Using cache") {
      if (this.#isOwn) return;
      const runs = this.#current?.runs;
      if (runs?.printsPrograms === true) log.say(`$ ${runs.shown}`);
      log.say("  unchanged since an earlier build");
    } else if (/^ ---> [0-9a-f]{12,64}$/.test(line)) {
      this.#images.push(line.slice(6));
    } else if (!/^( ---> [0-9a-f]+|Removing intermediate container .*|Successfully (built|tagged) .*|)$/.test(line)) {
      log.output("stdout", line);
    }
  }

  /**
   * Checks that the label follows a `FROM`, in the order in which this engine runs the instructions. Without it, the stage
   * would use cached steps of other workspaces.
   * @throws BuildFailure `Unsupported`
   */
  #checkLabel(instruction: string): void {
    const { stageLabel } = this.#build;
    if (stageLabel === null) return;
    if (this.#unlabelled !== null && instruction !== stageLabel) {
      throw new BuildFailure(
        "Unsupported",
        `'${this.#unlabelled}' cannot be separated from builds of other workspaces. Write FROM on a line of its own, and remove the escape directive.`,
      );
    }
    this.#unlabelled = /^FROM\s/i.test(instruction) ? instruction : null;
  }
}

const engineDiskFull =
  "The disk of the container engine is full. Ask an operator to free space there, then deploy again.";

const advice =
  "Remove the instructions that need it, or build the image elsewhere and deploy it as internal_docker or external_docker.";
