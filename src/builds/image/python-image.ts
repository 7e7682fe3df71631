import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { labels, stateMount } from "../../compute/docker/replicas/container.ts";
import { pythonLaunch } from "../../compute/process/langgraph/langgraph-python-launch.ts";
import type { BaseImages } from "../build.ts";
import { showCommand } from "../detect/command-line.ts";
import type { PythonProject } from "../detect/langgraph-config.ts";
import { BuildFailure } from "../failure.ts";
import { type EnginePackages, packagesOf, shimDir } from "../python/engine-packages.ts";
import { collectRequirements } from "../python/requirements.ts";
import { uvRequirement } from "../python/uv.ts";
import { isAllowed, type PythonServer, wantedPython } from "../python/wanted-version.ts";
import { isOutside } from "../sources/inside.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { agentUser, appDir, contextSource, type Instruction, ownDir, plain, workdir } from "./dockerfile.ts";
import { type Bases, readCertificates, type UsedBase } from "./make-base.ts";

/** Pierhead's programs, relative to `src`; the image has them in `ownDir` under their base names, and the parts of the shim beside it. */
const programs = [
  `${shimDir}/langgraph-python-shim.py`,
  "compute/docker/entrypoints/langgraph-python-start.py",
  "builds/python/install.py",
  "builds/python/kept_versions.py",
];

const inOwn = (name: string) => `${ownDir}/${name}`;

/** Runs install.py. Its check comes with the project: without one, the base has the packages that the server is tested with. */
function pipInstall(
  { packages, check }: EnginePackages,
  { lock, isChecked }: { lock: string | null; isChecked: boolean },
): string[] {
  const options = {
    servers: inOwn("agent-servers.json"),
    serverPackages: packages,
    installer: ["python", "-m", "pip", "install", "--no-cache-dir", "--use-pep517", "--root-user-action=ignore"],
    lock: lock === null ? null : path.posix.join(appDir, lock),
    uv: uvRequirement,
    check: isChecked ? ["python", "-P", ...check.map((program) => inOwn(path.posix.relative(shimDir, program)))] : null,
    checkedDir: null,
  };
  return ["python", "-P", inOwn("install.py"), JSON.stringify(options), "--"];
}

/** Directory in the build context of a Python agent for files that are not part of the source. */
export const contextExtra = "pierhead";

/**
 * Generates the Dockerfile of a Python LangGraph agent, on a base image that contains the agent server.
 * @throws BuildFailure `ConfigInvalid`, `ToolchainFailed`
 */
export async function pythonInstructions(
  bases: Bases,
  target: BaseImages,
  { project, context, label }: { project: PythonProject; context: BuildContext; label: string },
): Promise<Instruction[]> {
  const { directory, python } = project;
  const server = packagesOf(project.engine);
  // Unlike all other programs of an image build, uv runs on this host, with the permissions of this server.
  if (python.uvProject !== null) await refuseLinksOut(context.sourceDir);
  const requirements = await collectRequirements(context, project);
  const [argv, early] = await Promise.all(
    [requirements.argv, requirements.early.argv].map((one) => moveRequirements(one, context)),
  );
  await writeLaunch(project, context);
  const { pipConfigFile } = python;
  const settings = pipConfigFile === null ? [] : ["env", `PIP_CONFIG_FILE=${path.posix.join(appDir, pipConfigFile)}`];
  const { lock } = requirements;
  const isEarlyAll = isDeepStrictEqual(argv, early);
  const install = (wanted: string[] = [], isChecked = true): Instruction[] => {
    if (wanted.length === 0) return [];
    const shown = showCommand(["pip", "install", ...wanted]);
    const text = `RUN ${JSON.stringify([...settings, ...pipInstall(server, { lock, isChecked }), ...wanted])}`;
    return [workdir(requirements.cwd), { text, runs: { shown, reason: "InstallFailed" } }];
  };
  const manifests = [...requirements.early.manifests, ...(pipConfigFile === null ? [] : [pipConfigFile])];
  const start = ["python", inOwn("langgraph-python-start.py"), inOwn("launch.json"), inOwn("langgraph-python-shim.py")];
  const base = await pythonBase(bases, target, {
    server,
    engine: project.engine,
    version: await imageVersion(context, project),
    context,
  });
  return [
    ...base.stage,
    plain(`FROM ${base.name}`),
    plain(label),
    plain(`COPY ${JSON.stringify([`${contextExtra}/`, `${ownDir}/`])}`),
    // Published packages come before files that change with every commit, so that the engine's cache can reuse them.
    ...(early?.length === 0 ? [] : manifests.map(copyManifest)),
    ...install(early, isEarlyAll),
    plain(`COPY ${JSON.stringify([`${contextSource}/`, `${appDir}/`])}`),
    ...(isEarlyAll ? [] : install(argv)),
    workdir(directory),
    plain(`ENV HOME=${stateMount} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1`),
    plain(`USER ${agentUser}`),
    plain(`CMD ${JSON.stringify([...start, stateMount])}`),
  ];
}

/**
 * Rejects links that leave the source. uv quotes files that it cannot parse, and the author of the link can read the build
 * log.
 * @throws BuildFailure `ConfigInvalid`
 */
async function refuseLinksOut(sourceDir: string): Promise<void> {
  for (const entry of await readdir(sourceDir, { recursive: true, withFileTypes: true })) {
    const file = path.relative(sourceDir, path.join(entry.parentPath, entry.name));
    if (!entry.isSymbolicLink() || !(await isOutside(sourceDir, file))) continue;
    throw new BuildFailure(
      "ConfigInvalid",
      `'${file}' is a link out of the source. A uv project must not have such links.`,
    );
  }
}

const copyManifest = (file: string) =>
  plain(`COPY ${JSON.stringify([`${contextSource}/${file}`, path.posix.join(appDir, file)])}`);

/** Copies the files that were written for the installer outside the source into the build context. */
export async function moveRequirements(argv: string[], { sourceDir }: BuildContext): Promise<string[]> {
  const workDir = path.dirname(sourceDir);
  const moved: string[] = [];
  for (const argument of argv) {
    const isOutside = path.isAbsolute(argument) && path.dirname(argument) === workDir;
    if (!isOutside) {
      moved.push(argument);
      continue;
    }
    const name = path.basename(argument);
    await writeExtra(sourceDir, name, await readFile(argument, "utf8"));
    moved.push(inOwn(name));
  }
  return moved;
}

/** Writes the launch file for the server's host: the same as for an agent that runs as a process, with the image's paths. */
async function writeLaunch({ configPath, engine }: PythonProject, { sourceDir }: BuildContext): Promise<void> {
  const plan = {
    runner: "langgraph-python",
    environment_dir: "",
    packages_dir: ".pierhead-python",
    config_path: configPath,
  } as const;
  const { options, env } = pythonLaunch(sourceDir, plan);
  const { VIRTUAL_ENV: _, ...environment } = env;
  const text = JSON.stringify({ options, environment, engine });
  await writeExtra(sourceDir, "launch.json", text.replaceAll(sourceDir, appDir));
}

export const writeExtra = (sourceDir: string, name: string, text: string) =>
  writeFile(path.join(path.dirname(sourceDir), contextExtra, name), text);

/**
 * Returns the base: Python with the agent server, the operator's certificates, and a state directory that the agent's user
 * may write to.
 */
async function pythonBase(
  bases: Bases,
  target: BaseImages,
  of: { server: EnginePackages; engine: PythonProject["engine"]; version: string; context: BuildContext },
): Promise<UsedBase> {
  const { server, engine, version, context } = of;
  const from = target.pythonImage.replaceAll("{version}", version);
  const certificates = await readCertificates(context.env);
  const instructions = [
    plain(`FROM ${from}`),
    plain(`LABEL "${labels.installation}"="${target.installationId}"`),
    plain(`RUN ${JSON.stringify(["python", "-c", makeState])}`),
    plain(`COPY programs/ ${ownDir}/`),
    plain("ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1"),
    ...(certificates === null ? [] : trustInstructions),
    {
      text: `RUN ${JSON.stringify(pipInstall(server, { lock: null, isChecked: false }))}`,
      runs: { shown: "pip install (of the LangGraph server)", reason: "ToolchainFailed" as const },
    },
  ];
  const files = {
    ...Object.fromEntries(programs.map((program) => [path.posix.basename(program), program])),
    ...Object.fromEntries(server.parts().map((part) => [part, `${shimDir}/${part}`])),
  };
  const read = Object.entries(files).map(async ([name, program]) => {
    const file = fileURLToPath(new URL(`../../${program}`, import.meta.url));
    return [`programs/${name}`, await readFile(file, "utf8")];
  });
  return bases.use({
    kind: engine === "aegra" ? "langgraph-python-aegra" : "langgraph-python",
    people: engine === "aegra" ? "LangGraph agents in Python on Aegra" : "LangGraph agents in Python",
    from,
    instructions,
    files: {
      ...Object.fromEntries(await Promise.all(read)),
      "programs/agent-servers.json": JSON.stringify(server.servers),
      ...(certificates === null ? {} : { "programs/certificates.pem": certificates }),
    },
  });
}

/** Versions of Python in the order of preference. The first is the newest for which all wheels are reliably available. */
const versionsTried = ["3.12", "3.13", "3.11", "3.14"];

/** Returns the minor version of Python that an image of the project starts from, such as `3.12`. */
export async function imageVersion(context: BuildContext, project: PythonProject | PythonServer): Promise<string> {
  const found = await wantedPython(context, project);
  const wanted = project.kind === "command" ? found : packagesOf(project.engine).fitPython(found, project);
  const newest = (version: string) => isAllowed(wanted, `${version}.99`) || isAllowed(wanted, `${version}.0`);
  return wanted.version ?? versionsTried.find(newest) ?? "3.12";
}

/** Creates a state directory that the agent's user may write to, and any other: a cluster chooses the user. */
export const makeState = `import os; os.makedirs("${stateMount}", exist_ok=True); os.chown("${stateMount}", ${agentUser.replace(":", ", ")}); os.chmod("${stateMount}", 0o1777)`;

/** One file with the operator's certificates and those that pip and this Python trust, because neither reads two files. */
const bundle = inOwn("authorities.pem");
const makeBundle = [
  "import ssl, pathlib",
  "from pip._vendor import certifi",
  `found = [certifi.where(), ssl.get_default_verify_paths().cafile, "${inOwn("certificates.pem")}"]`,
  "read = [pathlib.Path(one).read_text() for one in found if one and pathlib.Path(one).exists()]",
  `pathlib.Path("${bundle}").write_text("\\n".join(read))`,
].join("; ");
export const trustInstructions: Instruction[] = [
  plain(`RUN ${JSON.stringify(["python", "-c", makeBundle])}`),
  plain(`ENV PIP_CERT=${bundle} SSL_CERT_FILE=${bundle} REQUESTS_CA_BUNDLE=${bundle}`),
];
