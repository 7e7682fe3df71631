import { readFile } from "node:fs/promises";
import path from "node:path";
import { type CondaEnvironment, condaProblem, readCondaEnvironment } from "../../domain/detection/conda-environment.ts";
import { condaFileNames } from "../../domain/detection/install-files.ts";
import { BuildFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";

/**
 * Reads the environment.yml of a directory, whose packages are all for pip.
 * @throws BuildFailure `Unsupported` when conda itself would install some of them.
 */
export async function findCondaEnvironment(sourceDir: string, directory: string): Promise<CondaEnvironment | null> {
  const conda = await condaEnvironmentIn(sourceDir, directory);
  if (conda !== null && conda.packages.length > 0) throw new BuildFailure("Unsupported", condaProblem(conda));
  return conda;
}

export async function condaEnvironmentIn(sourceDir: string, directory: string): Promise<CondaEnvironment | null> {
  for (const name of condaFileNames) {
    const file = path.posix.join(directory, name);
    if (!(await isFileInside(sourceDir, file))) continue;
    const found = readCondaEnvironment(file, await readFile(path.join(sourceDir, file), "utf8"));
    if (found !== null) return found;
  }
  return null;
}

/** Separates the options among lines for pip, whose paths are relative to the environment.yml, from the requirements. */
export function pipArguments({ pip }: CondaEnvironment): { argv: string[]; lines: string[] } {
  const isOption = (line: string) => line.startsWith("-");
  return {
    argv: pip.filter(isOption).flatMap(optionWords),
    lines: pip.filter((line) => !isOption(line)),
  };
}

/** Splits an option from its value, which may contain further signs of equality: `-e git+https://host/own.git#egg=own`. */
const optionWords = (line: string) => /^(--?[\w-]+)(?:\s*=\s*|\s+)(.+)$/.exec(line)?.slice(1) ?? [line];
