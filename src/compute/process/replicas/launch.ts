import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, statSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { engineLacks } from "../../../base/engine-lacks.ts";
import type { Artifact, StartPlan } from "../../../contract/listeners/assignment.ts";
import type { ReplicaSpec } from "../../compute.ts";
import { writeJson } from "../../json-file.ts";
import type { LaunchOptions } from "../langgraph/langgraph-js-shim.ts";
import { pythonLaunch } from "../langgraph/langgraph-python-launch.ts";
import { dataDirIdVariable, identify, type ProcessIdentity, replicaIdVariable } from "../system/processes.ts";
import { type ReplicaFiles, type ShimOptions, stateDirectory } from "./replica-files.ts";

export interface LaunchContext {
  dataDir: string;
  dataDirId: string;
  nodePath: string;
  /** PATH of the replicas. */
  searchPath: string;
}

type DirectoryArtifact = Extract<Artifact, { kind: "directory" }>;

/** A spec that can never run here: retrying cannot help. */
export class UnusableSpec extends Error {
  override name = "UnusableSpec";
  readonly reason: "StartError" | "EngineUnavailable";

  constructor(message: string, reason: "StartError" | "EngineUnavailable" = "StartError") {
    super(message);
    this.reason = reason;
  }
}

/** Returns the artifact. @throws UnusableSpec when this driver cannot run it, its files are missing, or the environment is invalid. */
export function checkSpec({ artifact, env }: ReplicaSpec): DirectoryArtifact {
  if (artifact.kind !== "directory") {
    throw new UnusableSpec(
      "This server runs agents as processes and cannot run images. Use docker or kubernetes compute.",
    );
  }
  if (
    ![artifact.path, ...neededDirs(artifact.start)].every((directory) =>
      statSync(directory, { throwIfNoEntry: false })?.isDirectory(),
    )
  ) {
    throw new UnusableSpec(
      "The files of this revision are not on this machine. If another server built it, run this listener on that server's machine, because only images are shared. Otherwise deploy again: the files were deleted.",
    );
  }
  checkEnvironment(env);
  checkDatabases(artifact, env);
  return artifact;
}

function checkDatabases({ start, ...artifact }: DirectoryArtifact, env: Record<string, string>): void {
  if (start.runner === "command") return;
  const engine = start.runner === "langgraph-js" && start.engine_dir !== undefined ? "postgres" : artifact.engine;
  if (engine !== "postgres" && engine !== "aegra") return;
  for (const [service, variable] of [
    ["POSTGRES", "DATABASE_URI"],
    ["REDIS", "REDIS_URI"],
  ] as const) {
    if (env[variable] || (engine === "postgres" && service === "REDIS")) continue;
    const otherwise = `, or remove engine from ${start.config_path}.`;
    throw new UnusableSpec(`${engineLacks(engine, service)}${otherwise}`, "EngineUnavailable");
  }
}

/** Returns directories outside the artifact that the start needs. For Python: the one that links to the interpreter. */
function neededDirs(start: StartPlan): string[] {
  if (start.runner === "langgraph-js") return [start.toolchain_dir, ...(start.engine_dir ? [start.engine_dir] : [])];
  return start.environment_dir === undefined ? [] : [path.join(start.environment_dir, "bin")];
}

/** MAX_ARG_STRLEN of Linux (execve(2)): 32 pages for `NAME=value` and its terminating zero byte. */
const variableBytesMax = 32 * 4096 - 1;

/** Rejects variables that the kernel would refuse. The message contains the name but never the value. */
function checkEnvironment(env: Record<string, string>): void {
  for (const [name, value] of Object.entries(env)) {
    if (name === "" || /[=\0]/.test(name)) {
      throw new UnusableSpec(`${JSON.stringify(name)} is not a valid name of an environment variable. Rename it.`);
    }
    if (value.includes("\0")) throw new UnusableSpec(`The value of ${name} contains a zero byte. Remove or encode it.`);
    if (Buffer.byteLength(`${name}=${value}`) > variableBytesMax) {
      throw new UnusableSpec(
        `The value of ${name} exceeds 128 KiB, the maximum for an environment variable. Shorten it.`,
      );
    }
  }
}

/** What the gate (`gate.mjs`) turns into. */
export interface StartRequest {
  argv: string[];
  cwd: string;
  env: Record<string, string>;
}

/** A waiting gate process in its own session. */
export interface Gate {
  child: ChildProcess;
  identity: ProcessIdentity;
  /** Turns the gate into the agent server. */
  open(request: StartRequest): void;
  /** Ends the gate. It also ends when this process dies. */
  cancel(): void;
}

/**
 * Spawns the gate of a replica. It runs no agent code until it is opened.
 * @throws Error when the process cannot be created.
 */
export async function spawnGate(context: LaunchContext, files: ReplicaFiles, replicaId: string): Promise<Gate> {
  const outputs = ["stdout", "stderr"].map((name) => openSync(path.join(files.directory, `${name}.log`), "a", 0o600));
  try {
    const child = spawn(context.nodePath, [ownProgram("gate.mjs")], {
      cwd: files.directory,
      detached: true,
      stdio: ["ignore", outputs[0], outputs[1], "pipe"],
      env: { [replicaIdVariable]: replicaId, [dataDirIdVariable]: context.dataDirId },
    });
    await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject));
    const pipe = child.stdio[3];
    if (child.pid === undefined || pipe == null || !("write" in pipe)) throw new Error("the gate has no descriptor 3");
    // The gate may exit before it has read everything: its exit event reports that, not this error.
    pipe.on("error", () => {});
    const identity = identify(child.pid);
    if (identity === undefined) throw new Error("the gate exited immediately");
    child.unref();
    return {
      child,
      identity,
      open: (request) => void pipe.end(JSON.stringify(request)),
      cancel: () => void pipe.destroy(),
    };
  } finally {
    for (const output of outputs) closeSync(output);
  }
}

/** Returns what the gate should become: program, directory and the whole environment (contract 7.1, 7.2). */
export async function prepareStart(
  context: LaunchContext,
  files: ReplicaFiles,
  spec: ReplicaSpec,
  start: { port: number | null; nonce: string },
): Promise<StartRequest> {
  const artifact = checkSpec(spec);
  const stateDir = stateDirectory(context.dataDir, spec.deploymentId);
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  await mkdir(files.tmp, { recursive: true, mode: 0o700 });
  const env = {
    PATH: context.searchPath,
    HOME: stateDir,
    LANG: "C.UTF-8",
    ...spec.env,
    TMPDIR: files.tmp,
    [replicaIdVariable]: spec.replicaId,
    [dataDirIdVariable]: context.dataDirId,
  };
  const plan = artifact.start;
  if (plan.runner === "command") {
    const all = { ...env, ...pythonEnvironment(artifact.path, plan, env), HOST: "127.0.0.1", PORT: String(start.port) };
    return { argv: plan.argv.map((word) => fillIn(word, all)), cwd: path.join(artifact.path, plan.cwd), env: all };
  }
  const own: ShimOptions = {
    stateDir,
    listen: { host: "127.0.0.1", port: 0 },
    reportFile: files.report,
    exitCodeFile: files.exitCode,
    nonce: start.nonce,
    drainTimeoutMs: spec.drainTimeoutMs,
  };
  if (plan.runner === "langgraph-python") {
    const { options, env: usual } = pythonLaunch(artifact.path, plan);
    const onAegra = artifact.engine === "aegra" ? aegraOptions(spec) : {};
    await writeJson(files.launch, { ...own, ...options, ...onAegra, viewDir: files.view });
    const bin = path.join(plan.environment_dir, "bin");
    return {
      argv: [path.join(bin, "python"), "-P", ownProgram("../langgraph/langgraph-python-shim.py"), files.launch],
      cwd: files.directory,
      env: { ...usual, ...env, PATH: `${bin}${path.delimiter}${env.PATH}` },
    };
  }
  const options: LaunchOptions = {
    ...own,
    toolchainDir: plan.toolchain_dir,
    rootDir: artifact.path,
    configFile: path.join(artifact.path, plan.config_path),
    engineDir: plan.engine_dir ?? null,
    engineSchema: schemaOf(spec, "langgraph"),
    compileCacheDir: path.join(context.dataDir, "cache", "node-compile"),
  };
  await writeJson(files.launch, options);
  return {
    argv: [
      context.nodePath,
      ...heapFlags(spec.memoryLimitMib),
      ownProgram("../langgraph/langgraph-js-shim"),
      files.launch,
    ],
    cwd: path.dirname(options.configFile),
    env: { LANGGRAPH_CLI_NO_ANALYTICS: "1", ...env },
  };
}

/** Deployments may share a database of the user's: a preview has the variables of its parent. None may run the other's queue. */
const schemaOf = ({ env, deploymentId }: ReplicaSpec, name: string) =>
  env["POSTGRES_URI_CUSTOM"] ? `${name}_${deploymentId.replaceAll("-", "")}` : name;

const aegraOptions = (spec: ReplicaSpec) => ({
  engineSchema: schemaOf(spec, "aegra"),
  redisPrefix: (spec.env["REDIS_URI_CUSTOM"] ? undefined : spec.env["REDIS_KEY_PREFIX"]) ?? `${spec.deploymentId}:`,
});

/** Replaces the variables of the start command that only the driver knows. No shell does it. */
function fillIn(word: string, env: Record<string, string>): string {
  return word.replaceAll(/\$(PORT|HOST|PUBLIC_URL)\b/g, (_all, name: string) => env[name] ?? "");
}

/** Returns what a Python server needs to find its packages, the project's own modules and the programs of both. */
function pythonEnvironment(
  artifactDir: string,
  { environment_dir: environmentDir, packages_dir: packages = ".", cwd }: Extract<StartPlan, { runner: "command" }>,
  env: Record<string, string>,
): Record<string, string> {
  if (environmentDir === undefined) return {};
  const [packagesDir, directory] = [path.join(artifactDir, packages), path.join(artifactDir, cwd)];
  const bins = [path.join(packagesDir, "bin"), path.join(environmentDir, "bin")];
  const given = env["PYTHONPATH"] === undefined ? [] : [env["PYTHONPATH"]];
  return {
    PATH: [...bins, env["PATH"]].join(path.delimiter),
    PYTHONPATH: [packagesDir, directory, path.join(directory, "src"), ...given].join(path.delimiter),
    VIRTUAL_ENV: environmentDir,
    PYTHONUNBUFFERED: "1",
    // Artifact and environment are shared and must stay unmodified.
    PYTHONDONTWRITEBYTECODE: "1",
  };
}

/**
 * V8 sizes its heap by the machine's memory, not by our limit. Three quarters for old objects leave room for code, buffers
 * and the young generation, whose default alone is up to 3 x 16 MiB. 2 MiB semi-spaces save about 100 MiB of RSS.
 */
function heapFlags(memoryLimitMib: number): string[] {
  return ["--max-semi-space-size=2", `--max-old-space-size=${Math.floor(memoryLimitMib * 0.75)}`];
}

/** Returns the path of a program beside this module. Programs are .ts files in a clone and .js files when built. */
function ownProgram(name: string): string {
  const extension = path.extname(name) !== "" ? "" : path.extname(fileURLToPath(import.meta.url));
  return fileURLToPath(new URL(`./${name}${extension}`, import.meta.url));
}
