import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { installOnce } from "../cache/install-once.ts";
import { moveWhole } from "../cache/move-atomically.ts";
import { BuildFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";
import { findProgram } from "../worker/environment.ts";
import { programOutput } from "../worker/program-output.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";

const uvVersion = "0.13.9";

/** SHA-256 of the wheels of this version: Linux (glibc, musl) and macOS on x86-64 and ARM. pip rejects all others. */
const wheelHashes = [
  "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
  "5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",
  "2c45530751517d6c3bbc69a19473f6effe47cce047bede01ffd8af7ea7b36b25",
  "66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63",
  "c16ed11e013557536b3e60065f1b912f6407bd6518e041b961e23ef9e6b4fbf5",
];

/** The line of a requirements.txt with which pip installs uv. */
export const uvRequirement = [`uv==${uvVersion}`, ...wheelHashes.map((hash) => `--hash=sha256:${hash}`)].join(" ");

/** A uv, and the context for commands that run it. */
export interface Uv {
  /** Absolute path; null: use pip. */
  uv: string | null;
  context: BuildContext;
}

/**
 * Returns the uv of the build host, or else one that pip installs from the package index, once for all builds of this server. It
 * reads the same settings as pip, so a project gets its packages from the same indexes as before.
 */
export async function findOrInstallUv(context: BuildContext): Promise<Uv> {
  const own = findProgram("uv", context.env["PATH"] ?? "");
  if (own !== null) return { uv: own, context };
  const python = ["python3", "python3.13", "python3.12", "python3.11", "python"]
    .map((name) => findProgram(name, context.env["PATH"] ?? ""))
    .find((program) => program !== null);
  if (python === undefined) return { uv: null, context };
  const directory = path.join(context.cacheDir, "toolchains", `uv-${uvVersion}`);
  try {
    await installOnce(context, directory, () => install(context, python, directory));
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    context.log.say(`Note: uv ${uvVersion} could not be installed from the package index: using pip.`);
    return { uv: null, context };
  }
  const env = { ...context.env, ...(await indexSettings(context, python)) };
  return { uv: path.join(directory, "bin", "uv"), context: { ...context, env } };
}

async function install(context: BuildContext, python: string, directory: string): Promise<void> {
  context.log.say(`Installing uv ${uvVersion}, once for all agents of this server.`);
  const unfinished = `${directory}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true });
  await writeFile(path.join(unfinished, "requirements.txt"), uvRequirement);
  const options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--retries", "1"];
  const shown = ["python", "-m", "pip", "install", "--require-hashes", `uv==${uvVersion}`];
  const argv = [python, "-m", "pip", "install", ...options, "--target", ".", "--requirement", "requirements.txt"];
  await runCommand({ ...context, sourceDir: unfinished }, { argv, shown, cwd: ".", env: {} }, "ToolchainFailed");
  await moveWhole(unfinished, directory, context).catch(async (error: unknown) => {
    if ((await stat(directory).catch(() => null)) === null) throw error;
  });
}

/** Returns the settings of uv that apply in a directory of the source, because they decide what is installed; null: none. */
export async function uvSettingsOf({ sourceDir }: BuildContext, cwd: string): Promise<string | null> {
  for (let at = path.posix.normalize(cwd); ; at = path.posix.dirname(at)) {
    const read = async (name: string) => {
      const file = path.posix.join(at, name);
      return (await isFileInside(sourceDir, file)) ? readFile(path.join(sourceDir, file), "utf8") : null;
    };
    const own = await read("uv.toml");
    if (own !== null) return own;
    const sections = ((await read("pyproject.toml")) ?? "").split(/^(?=[ \t]*\[)/m);
    const ofUv = sections.filter((section) => /^[ \t]*\[{1,2}tool\.uv\b/.test(section));
    if (ofUv.length > 0) return ofUv.join("");
    if (at === ".") return null;
  }
}

/** Settings of pip that decide where packages come from, and the variables of uv with the same meaning. */
const settings: Readonly<Record<string, string>> = {
  "index-url": "UV_DEFAULT_INDEX",
  "extra-index-url": "UV_INDEX",
  "find-links": "UV_FIND_LINKS",
  "no-index": "UV_NO_INDEX",
  "trusted-host": "UV_INSECURE_HOST",
  cert: "SSL_CERT_FILE",
};

/** Converts the settings of pip, from its variables and its files, to variables of uv. */
async function indexSettings({ env, signal }: BuildContext, python: string): Promise<Record<string, string>> {
  const options = { env, timeoutMs: 30_000, signal };
  return uvSettings((await programOutput(python, ["-m", "pip", "config", "list"], options)).stdout);
}

/** Converts the output of `pip config list`. A variable of pip overrides its files. */
export function uvSettings(listed: string): Record<string, string> {
  const found: Record<string, string> = {};
  const lines = [...listed.matchAll(/^(\S+?)\.([\w-]+)=(['"])(.*)\3$/gm)];
  const isVariable = (line: RegExpMatchArray) => line[1] === ":env:";
  for (const line of [...lines.filter((one) => !isVariable(one)), ...lines.filter(isVariable)]) {
    const [, section = "", key = "", , value = ""] = line;
    const name = settings[key];
    if (name === undefined || ![":env:", "global", "install"].includes(section)) continue;
    const words = value.split(/\\n|\s+/).filter((word) => word !== "");
    // uv separates the directories and pages of find-links by commas.
    found[name] = words.join(name === "UV_FIND_LINKS" ? "," : " ");
  }
  // pip takes the best version of all indexes, uv by default those of the first index that has the package.
  return found["UV_INDEX"] === undefined ? found : { ...found, UV_INDEX_STRATEGY: "unsafe-best-match" };
}
