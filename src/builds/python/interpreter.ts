import { execFile } from "node:child_process";
import { realpath } from "node:fs/promises";
import { promisify } from "node:util";
import { BuildFailure } from "../failure.ts";
import { findProgram } from "../worker/environment.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { pythonMinorMin } from "./settings.ts";

/** A Python with which environments can be created. */
export interface Interpreter {
  /** Absolute path, or a version that uv finds or downloads. */
  python: string;
  /** `3.11.7`, or the version that uv is asked for. */
  version: string;
}

/**
 * Minor versions in the order in which they are tried. The newest is last, because wheels for a new Python take a while to
 * appear.
 */
const minorsTried = [13, 12, 11, 14];

/** Starting Python takes 20 ms, or up to a second through a version manager. */
const probeTimeoutMs = 10_000;

/**
 * Finds the Python for a project on the PATH of the build host: the version that the project requires, otherwise `python3`,
 * otherwise any version that the agent server supports.
 * @param uv path of uv, which can download a Python itself; null: uv is not installed.
 * @throws BuildFailure `ToolchainFailed` with the versions found and what to install.
 */
export async function findPython(
  context: BuildContext,
  wanted: string | null,
  uv: string | null,
): Promise<Interpreter> {
  const others = minorsTried.map((minor) => `python3.${minor}`);
  const names = wanted === null ? ["python3", ...others, "python"] : [`python${wanted}`, "python3", "python"];
  const seen: string[] = [];
  for (const name of names) {
    const program = findProgram(name, context.env["PATH"] ?? "");
    const found = program === null ? null : await probe(context, program);
    if (found === null) continue;
    const fits = wanted === null ? isRecent(found.version) : found.version.startsWith(`${wanted}.`);
    if (fits && (found.hasVenv || uv !== null)) return { python: found.executable, version: found.version };
    const lack = fits ? " without venv (Debian: install python3-venv)" : "";
    seen.push(`Python ${found.version} at ${found.executable}${lack}`);
  }
  if (uv === null) throw notFound(wanted, [...new Set(seen)]);
  return { python: wanted ?? `>=3.${pythonMinorMin}`, version: wanted ?? `3.${pythonMinorMin} or newer` };
}

function notFound(wanted: string | null, seen: string[]): BuildFailure {
  const what = wanted === null ? `Python 3.${pythonMinorMin} or newer` : `Python ${wanted} (python_version)`;
  const advice = wanted === null ? "" : ", or change python_version";
  return new BuildFailure(
    "ToolchainFailed",
    `The agent needs ${what}, but the PATH of this server has ${seen.length === 0 ? "no Python" : seen.join(", ")}. Install it, or install uv, which downloads it${advice}.`,
  );
}

/** Runs a Python to get its version. Version managers put names on the PATH for versions that are not installed. */
async function probe({ env, signal }: BuildContext, program: string) {
  const script =
    "import json,sys;from importlib.util import find_spec as f;" +
    "print(json.dumps([sys.version_info[:3],sys.executable,bool(f('venv') and f('ensurepip'))]))";
  const options = { env, timeout: probeTimeoutMs, killSignal: "SIGKILL", signal } as const;
  const stdout = await promisify(execFile)(program, ["-I", "-c", script], options).then(
    (ended) => ended.stdout,
    () => null,
  );
  signal.throwIfAborted();
  if (stdout === null) return null;
  try {
    const [version, executable, hasVenv] = JSON.parse(stdout) as [number[], string, boolean];
    return { version: version.join("."), executable: await realpath(executable), hasVenv };
  } catch {
    return null;
  }
}

function isRecent(version: string): boolean {
  const [major, minor] = version.split(".").map(Number);
  return major === 3 && (minor ?? 0) >= pythonMinorMin;
}
