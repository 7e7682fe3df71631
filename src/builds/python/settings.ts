import type { ConfigValue } from "../detect/config-reader.ts";

/** The settings in a `langgraph.json` for the Python environment of its graphs (contract 7.5). */
export interface PythonSettings {
  /** `3.12`; null: any version that the agent server supports. */
  version: string | null;
  /** Directories of the source, relative to its root, whose packages and modules the graphs import. */
  localDirs: string[];
  /** Packages to install from the package index, such as `langchain-openai>=1`. */
  packages: string[];
  /** A uv project whose lock file decides what is installed. It excludes `dependencies`. */
  uvProject: { directory: string; package: string | null } | null;
  /** Relative to the root of the source. */
  pipConfigFile: string | null;
  installer: "auto" | "pip" | "uv";
}

/** Oldest minor version of Python 3 that the agent server supports. */
export const pythonMinorMin = 11;

/** @throws BuildFailure `ConfigInvalid` */
export function readPythonSettings(config: ConfigValue, directory: string): PythonSettings {
  const pipConfigFile = config.get("pip_config_file");
  const uvProject = readUvProject(config.get("source"), directory);
  const dependencies = config.get("dependencies");
  if (uvProject !== null && !dependencies.isAbsent) dependencies.refuse("must be absent beside source");
  const { localDirs, packages } =
    uvProject === null ? readDependencies(dependencies, directory) : { localDirs: [], packages: [] };
  return {
    version: config.get("python_version").isAbsent ? null : readPythonVersion(config.get("python_version")),
    localDirs,
    packages,
    uvProject,
    pipConfigFile: pipConfigFile.isAbsent ? null : pipConfigFile.filePath(pipConfigFile.text(), directory),
    installer: readInstaller(config.get("pip_installer")),
  };
}

function readDependencies(dependencies: ConfigValue, directory: string) {
  const example = 'must list what the graphs need, such as ["."] for the packages and modules of this directory';
  if (dependencies.isAbsent) dependencies.refuse(`is missing: it ${example}`);
  const items = dependencies.items();
  if (items.length === 0) dependencies.refuse(example);
  const localDirs: string[] = [];
  const packages: string[] = [];
  for (const item of items) {
    const given = item.text();
    if (given.startsWith(".")) localDirs.push(item.filePath(given, directory).replace(/(?<=.)\/$/, ""));
    else if (/^[A-Za-z0-9]/.test(given)) packages.push(given);
    else item.refuse(`must be a package or a directory that begins with '.', not '${given}'`);
  }
  return { localDirs, packages };
}

function readUvProject(source: ConfigValue, directory: string): PythonSettings["uvProject"] {
  if (source.isAbsent) return null;
  if (source.get("kind").value !== "uv") source.get("kind").refuse('must be "uv"');
  const [root, name] = [source.get("root"), source.get("package")];
  return {
    directory: root.isAbsent ? directory : root.filePath(root.text(), directory).replace(/(?<=.)\/$/, ""),
    package: name.isAbsent ? null : name.text(),
  };
}

/** Reads a minor version of Python, such as `3.12`. @throws BuildFailure `ConfigInvalid` */
export function readPythonVersion(version: ConfigValue): string {
  const [, minor] = /^3\.(\d{1,2})$/.exec(String(version.value)) ?? [];
  if (minor === undefined || Number(minor) < pythonMinorMin) {
    version.refuse(
      `must be a minor version of Python from 3.${pythonMinorMin} on, such as "3.12", not ${JSON.stringify(version.value)}`,
    );
  }
  return `3.${minor}`;
}

function readInstaller(installer: ConfigValue): PythonSettings["installer"] {
  if (installer.isAbsent) return "auto";
  const { value } = installer;
  if (value === "auto" || value === "pip" || value === "uv") return value;
  return installer.refuse('must be "auto", "pip" or "uv"');
}
