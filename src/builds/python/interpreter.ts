import { realpath } from "node:fs/promises";
import { BuildFailure } from "../failure.ts";
import { findPrograms } from "../worker/environment.ts";
import { programOutput } from "../worker/program-output.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { pythonMinorMin } from "./settings.ts";
import { isAllowed, isVersionIn, type WantedPython } from "./wanted-version.ts";

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

/** A Python has about 30 MB. */
const downloadTimeoutMs = 120_000;

/** Starting Python takes 20 ms, or up to a second through a version manager. */
const probeTimeoutMs = 10_000;

/**
 * Finds the Python for a project on the PATH of the build host and where version managers install it: the version that the
 * project names, otherwise `python3`, otherwise any version that the project and the agent server allow.
 * @param uv path of uv, which can download a Python itself; null: uv is not installed.
 * @throws BuildFailure `ToolchainFailed` with the versions found and what to install.
 */
export async function findPython(context: BuildContext, given: WantedPython, uv: string | null): Promise<Interpreter> {
  const wanted = withoutRefused(context, given);
  const seen: string[] = [];
  const found = await search(context, wanted, uv, seen);
  if (found !== null) return found;
  if (uv !== null) {
    const range = [`>=3.${pythonMinorMin}`, ...wanted.ranges.map((one) => one.range)].join(",");
    // uv does not know Poetry's operators.
    const python = wanted.version ?? (/[\^]|~(?!=)/.test(range) ? `>=3.${pythonMinorMin}` : range);
    if (await canProvide(context, python, uv))
      return { python, version: wanted.version ?? `3.${pythonMinorMin} or newer` };
  }
  if (wanted.isPreference) {
    const other = await search(context, { ...wanted, version: null }, uv, seen);
    if (other !== null) {
      const what = `${wanted.from} names Python ${wanted.version}, which this server does not have`;
      context.log.say(`Note: ${what}: using Python ${other.version}.`);
      return other;
    }
  }
  throw notFound(wanted, [...new Set(seen)], uv !== null);
}

/** Drops a preferred version that a required range excludes, such as that of an old Dockerfile: its installation could only fail. */
function withoutRefused({ log }: BuildContext, wanted: WantedPython): WantedPython {
  const { version, from, isPreference, ranges } = wanted;
  if (version === null || !isPreference) return wanted;
  const isIn = (range: string) => isVersionIn(`${version}.99`, range) || isVersionIn(`${version}.0`, range);
  const refusing = ranges.find(({ range }) => !isIn(range));
  if (refusing === undefined) return wanted;
  log.say(`Note: ${from} names Python ${version}, which ${refusing.from} does not allow: using another one.`);
  return { ...wanted, version: null, isPreference: false };
}

/**
 * Finds a Python and installs packages with it. When the packages need another version of Python, which only the installer finds
 * out, it tries once more with that version, unless the project's configuration names one.
 * @throws BuildFailure of `findPython` or `install`
 */
export async function withFittingPython<T>(
  context: BuildContext,
  { wanted, uv }: { wanted: WantedPython; uv: string | null },
  install: (interpreter: Interpreter) => Promise<T>,
): Promise<T> {
  const interpreter = await findPython(context, wanted, uv);
  try {
    return await install(interpreter);
  } catch (error) {
    const range = rangeOfPackages(context.log.lastLines(100), interpreter.version);
    const isNamed = wanted.version !== null && !wanted.isPreference;
    if (!(error instanceof BuildFailure) || range === null || isNamed) throw error;
    const ranges = [...wanted.ranges, { range, from: "the packages" }];
    const other = await findPython(context, { ...wanted, version: null, ranges }, uv).catch(() => null);
    if (other === null) throw error;
    context.log.say(
      `The packages need Python ${range}: using Python ${other.version} instead of ${interpreter.version}.`,
    );
    return install(other);
  }
}

/** Returns the first range in the messages of pip or uv that excludes a version of Python. */
function rangeOfPackages(lines: readonly string[], version: string): string | null {
  const forms =
    /(?:Requires-Python |not in '|does not satisfy Python|depends on Python)((?:[<>=!~]=?[\d.*, ]{1,40}){1,8})/g;
  const ranges = [...lines.join(" ").matchAll(forms)].map(([, range = ""]) => range.replace(/[\s,]+$/, ""));
  return ranges.find((range) => !isVersionIn(version, range)) ?? null;
}

/**
 * Lets uv find or download a Python. It cannot download one without access to its releases, or a version that does not exist. An
 * old Python on the PATH also makes its search fail.
 */
async function canProvide({ env, signal }: BuildContext, python: string, uv: string): Promise<boolean> {
  const options = { env, timeoutMs: downloadTimeoutMs, signal };
  const succeeds = async (verb: string) => !(await programOutput(uv, ["python", verb, python], options)).hasFailed;
  return (await succeeds("find")) || (await succeeds("install"));
}

async function search(
  context: BuildContext,
  wanted: WantedPython,
  uv: string | null,
  seen: string[],
): Promise<Interpreter | null> {
  const { version } = wanted;
  const others = minorsTried.map((minor) => `python3.${minor}`);
  const names = version === null ? ["python3", ...others, "python"] : [`python${version}`, "python3", "python"];
  const probed = new Set<string>();
  // The first program of each name is what the operator's shell would run, so all of these come before the others.
  const programs = names.map((name) => findPrograms(name, context.env["PATH"] ?? ""));
  const ordered = [...programs.flatMap((one) => one.slice(0, 1)), ...programs.flatMap((one) => one.slice(1))];
  for (const program of ordered) {
    const found = await probe(context, program);
    if (found === null || probed.has(found.executable)) continue;
    probed.add(found.executable);
    const isNamed = version === null ? isRecent(found.version) : found.version.startsWith(`${version}.`);
    const fits = isNamed && isAllowed(wanted, found.version);
    if (fits && (found.hasVenv || uv !== null)) return { python: found.executable, version: found.version };
    const lack = fits ? " without venv (Debian: install python3-venv)" : "";
    seen.push(`Python ${found.version} at ${found.executable}${lack}`);
  }
  return null;
}

function notFound({ version, from, ranges }: WantedPython, seen: string[], hasUv: boolean): BuildFailure {
  const required = ranges.map(
    (one) => `${one.range} (${one.from.endsWith(".toml") ? "requires-python in " : ""}${one.from})`,
  );
  const named = version === null ? `Python 3.${pythonMinorMin} or newer` : `Python ${version} (${from})`;
  const what = [named, ...required].join(" and ");
  const isOfEngine = ranges.some((one) => one.from.startsWith("engine "));
  const other = isOfEngine ? ', or choose engine "memory"' : ", or change the requirement";
  const advice = version === null && ranges.length === 0 ? "" : other;
  return new BuildFailure(
    isOfEngine ? "EngineUnavailable" : "ToolchainFailed",
    `The agent needs ${what}, but this server has ${seen.length === 0 ? "no Python" : seen.join(", ")}. ${hasUv ? "uv finds no such Python to download. Install it" : "Install it, or install uv, which downloads it"}${advice}.`,
  );
}

/** Runs a Python to get its version. Version managers put names on the PATH for versions that are not installed. */
async function probe({ env, signal }: BuildContext, program: string) {
  const script =
    "import json,sys;from importlib.util import find_spec as f;" +
    "print(json.dumps([sys.version_info[:3],sys.executable,bool(f('venv') and f('ensurepip'))]))";
  const options = { env, timeoutMs: probeTimeoutMs, signal };
  const { hasFailed, stdout } = await programOutput(program, ["-I", "-c", script], options);
  if (hasFailed) return null;
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
