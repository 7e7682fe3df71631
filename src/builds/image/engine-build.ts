import type { Readable } from "node:stream";
import { type Engine, EngineError } from "../../compute/docker/engine/engine.ts";
import { BuildFailure, tooLarge } from "../failure.ts";
import { LineSplitter } from "../worker/build-log.ts";
import type { BuildContext } from "../worker/run-command.ts";
import type { Instruction } from "./dockerfile.ts";

export interface EngineBuild {
  /** Tar of the build context. */
  context: Readable;
  /** Name of the Dockerfile in it. */
  dockerfile: string;
  tag: string;
  /** Added to the finished image. */
  labels: Record<string, string>;
  /** One per step, when we wrote the Dockerfile; null: it is the project's own. */
  instructions: Instruction[] | null;
  /** Of each program that runs in the build, all it starts included. */
  limits: { memoryMib: number; cpuCores: number; diskBytesMax: number };
}

/** What the engine tells while it builds. */
interface Progress {
  stream?: string;
  error?: string;
  errorDetail?: { code?: number };
  aux?: { ID?: string };
}

const mib = 1024 * 1024;

/** Of the CPU quota: the kernel's own default. */
const cpuPeriodUs = 100_000;

/**
 * Lets the engine build an image. Its output goes into the build log. When the signal aborts, or this process dies, the
 * engine kills what runs and takes back what it has begun: the build hangs on our connection.
 * @returns the id of the image.
 * @throws BuildFailure with the reason of the instruction that failed and its last lines.
 */
export async function buildInEngine(engine: Engine, build: EngineBuild, context: BuildContext): Promise<string> {
  const { memoryMib, cpuCores, diskBytesMax } = build.limits;
  const query = {
    t: build.tag,
    dockerfile: build.dockerfile,
    labels: build.labels,
    buildargs: proxiesOf(context.env),
    rm: true,
    forcerm: true,
    memory: memoryMib * mib,
    memswap: memoryMib * mib,
    cpuperiod: cpuPeriodUs,
    cpuquota: Math.round(cpuCores * cpuPeriodUs),
  };
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const steps = new StepLog(build.instructions, context);
  const watch = watchContainer(engine, steps, diskBytesMax, (failure) => stop.abort(failure));
  let imageId = "";
  try {
    const progress = engine.values<Progress>("POST", "/build", { query, body: build.context, signal });
    for await (const { stream, error, errorDetail, aux } of progress) {
      if (stream !== undefined) steps.write(stream);
      if (aux?.ID !== undefined) imageId = aux.ID;
      if (error !== undefined) throw steps.failure(error, errorDetail?.code, memoryMib);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof EngineError) throw steps.failure(error.message, undefined, memoryMib);
    throw error;
  } finally {
    clearInterval(watch);
  }
  if (imageId === "") throw new BuildFailure("BuilderFailed", "The container engine ended the build without a word.");
  return imageId;
}

/** Known to every Dockerfile without being declared, and not part of what the cache compares. */
function proxiesOf(env: Record<string, string>): Record<string, string> {
  const names = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"];
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

/** A look at a container's own files is a walk over them. */
const diskLookMs = 2_000;

/** The engine has no bound of its own for what a build writes. */
function watchContainer(
  engine: Engine,
  steps: StepLog,
  bytesMax: number,
  onExceeded: (failure: BuildFailure) => void,
): NodeJS.Timeout {
  let isLooking = false;
  const look = async () => {
    const id = steps.runningIn;
    if (id === null || isLooking) return;
    isLooking = true;
    const found = await engine
      .callUnless<{ SizeRw?: number }>([404], "GET", `/containers/${id}/json`, { query: { size: true } })
      .catch(() => undefined);
    isLooking = false;
    if (found?.SizeRw !== undefined && found.SizeRw > bytesMax) onExceeded(tooLarge(found.SizeRw, bytesMax));
  };
  return setInterval(() => void look(), diskLookMs).unref();
}

/** Turns the engine's account of a build into lines of its log, and knows at which instruction it is. */
class StepLog {
  readonly #instructions: Instruction[] | null;
  readonly #context: BuildContext;
  readonly #splitter = new LineSplitter((line) => this.#read(line));
  #current: Instruction | null = null;
  #shown = "the first instruction";
  runningIn: string | null = null;

  constructor(instructions: Instruction[] | null, context: BuildContext) {
    this.#instructions = instructions;
    this.#context = context;
  }

  write(text: string): void {
    this.#splitter.write(Buffer.from(text));
  }

  /** @param code of the program that ended the build; undefined: it was not a program. */
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
    return new BuildFailure(reason, `\`${runs?.shown ?? this.#shown}\` ended with exit code ${code}${killed}. ${said}`);
  }

  #read(line: string): void {
    const [, number, text] = /^Step (\d+)\/\d+ : (.*)$/.exec(line) ?? [];
    const { log } = this.#context;
    if (number !== undefined) {
      this.#current = this.#instructions?.[Number(number) - 1] ?? null;
      this.#shown = text ?? "";
      this.runningIn = null;
      log.forgetLastLines();
      log.say(this.#current?.runs == null ? `> ${text}` : `$ ${this.#current.runs.shown}`);
      return;
    }
    const [, container] = /^ ---> Running in ([0-9a-f]+)$/.exec(line) ?? [];
    if (container !== undefined) this.runningIn = container;
    else if (line === " ---> Using cache") log.say("  unchanged since an earlier build");
    else if (!/^( ---> [0-9a-f]+|Removing intermediate container .*|Successfully (built|tagged) .*|)$/.test(line)) {
      log.output("stdout", line);
    }
  }
}

const engineDiskFull =
  "The disk of the container engine is full. An operator has to free space there; then deploy again.";

const advice =
  "Remove what needs it, or build the image elsewhere and deploy it as internal_docker or external_docker.";
