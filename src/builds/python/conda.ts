import { readFile } from "node:fs/promises";
import path from "node:path";
import { firstNames } from "../../base/first-names.ts";
import { condaProblem, readCondaEnvironment } from "../../domain/detection/conda-environment.ts";
import type { CondaEnvironment } from "../../domain/detection/conda-packages.ts";
import { condaFileNames } from "../../domain/detection/install-files.ts";
import { normalizedName, requirementNames } from "../../domain/detection/toml-text.ts";
import { BuildFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";
import type { BuildContext } from "../worker/run-command.ts";

/** Reads the environment.yml or pixi.toml of a directory, or else the tables of pixi in its pyproject.toml. */
export async function findCondaEnvironment(sourceDir: string, directory: string): Promise<CondaEnvironment | null> {
  for (const name of [...condaFileNames, "pyproject.toml"]) {
    const file = path.posix.join(directory, name);
    if (!(await isFileInside(sourceDir, file))) continue;
    const found = readCondaEnvironment(file, await readFile(path.join(sourceDir, file), "utf8"));
    if (found !== null) return found;
  }
  return null;
}

/** Says which packages of conda pip installs or does not install. */
export function sayCondaPackages(log: BuildContext["log"], conda: CondaEnvironment): void {
  const { file, packages, ofSystem, ofOtherChannels } = conda;
  if (packages.length > 0)
    log.say(
      `Pierhead does not run conda. Looking on PyPI for the packages in ${file}: ${shown(packages.map(({ line }) => line))}.`,
    );
  if (ofSystem.length > 0)
    log.say(
      `Note: pip cannot install what ${file} lists for the system: ${shown(ofSystem)}. The server gets what its machine or image has.`,
    );
  if (ofOtherChannels.length > 0) log.say(`Note: ${otherChannels(conda)}`);
}

/** @throws BuildFailure `Unsupported` for packages of channels that are not known to be public. */
export function refuseOtherChannels(conda: CondaEnvironment): void {
  if (conda.ofOtherChannels.length > 0) throw new BuildFailure("Unsupported", otherChannels(conda));
}

const otherChannels = ({ file, ofOtherChannels }: CondaEnvironment) =>
  `${file} lists packages of conda whose channel Pierhead does not know to be public: ${shown(ofOtherChannels)}. It does not look for them on PyPI, where anyone can publish packages with these names. If they are of a public channel, name it beside them, such as conda-forge. List the others for pip with an address or an index.`;

const shown = (names: readonly string[]) => firstNames(names, 8);

/**
 * Explains a failed installation by packages of conda that PyPI does not have.
 * @param lines of the log.
 */
export function condaFailure({ file, packages }: CondaEnvironment, lines: readonly string[]): BuildFailure | null {
  const missing = new Set(
    lines.flatMap((line) => [...line.matchAll(notFound)].map((match) => normalizedName(match[1] ?? match[2] ?? ""))),
  );
  const names = packages.map(({ name }) => name).filter((name) => missing.has(normalizedName(name)));
  return names.length === 0 ? null : new BuildFailure("Unsupported", condaProblem(file, names));
}

/** How uv and pip name a package that no index has. */
const notFound = /(?<![\w.-])([\w.-]{1,200}) was not found in the|No matching distribution found for ([\w.-]+)/g;

/** Separates the options among lines for pip, whose paths are relative to the environment.yml, from the requirements. */
export function pipArguments({ pip, packages }: Pick<CondaEnvironment, "pip" | "packages">): {
  argv: string[];
  lines: string[];
} {
  const isOption = (line: string) => line.startsWith("-");
  const listed = pip.filter((line) => !isOption(line));
  // The lines for pip decide about a package that both name.
  const named = new Set(requirementNames(listed).map(normalizedName));
  return {
    argv: pip.filter(isOption).flatMap(optionWords),
    lines: [...listed, ...packages.filter(({ name }) => !named.has(normalizedName(name))).map(({ line }) => line)],
  };
}

/** Options that decide where packages come from. */
const indexOption = /^\s*(?:-i|-f|--index-url|--extra-index-url|--find-links|--no-index)(?=[\s=]|$)/;

/** Returns the lines with such options. Without them, a package of a private index would be looked for among those of everyone. */
export const indexOptions = (lines: readonly string[]): string[] => lines.filter((line) => indexOption.test(line));

/** Splits an option from its value, which may contain further signs of equality: `-e git+https://host/own.git#egg=own`. */
const optionWords = (line: string) => /^(--?[\w-]+)(?:\s*=\s*|\s+)(.+)$/.exec(line)?.slice(1) ?? [line];
