import { readFile } from "node:fs/promises";
import path from "node:path";
import type { BuildContext } from "../worker/run-command.ts";

/** Build backends and plugins that read the version of a package from git. */
const readsGit = /setuptools[-_]scm|hatch-vcs|uv-dynamic-versioning|poetry-dynamic-versioning|versioningit/;

const version = "0.0.0";

/**
 * Returns the variables by which a package whose version comes from git tags can be installed: a source has no git history.
 * @param directories of the packages, relative to the root of the source.
 */
export async function gitVersionVariables(
  { sourceDir, log }: BuildContext,
  directories: readonly string[],
): Promise<Record<string, string>> {
  for (const directory of directories) {
    const read = (name: string) => readFile(path.join(sourceDir, directory, name), "utf8").catch(() => "");
    const files = [await read("pyproject.toml"), await read("setup.py"), await read("setup.cfg")];
    if (!files.some((text) => readsGit.test(text))) continue;
    log.say(`The version of the project comes from git, whose history is not a part of the source: using ${version}.`);
    return {
      SETUPTOOLS_SCM_PRETEND_VERSION: version,
      UV_DYNAMIC_VERSIONING_BYPASS: version,
      POETRY_DYNAMIC_VERSIONING_BYPASS: version,
      VERSIONINGIT_DEFAULT_VERSION: version,
    };
  }
  return {};
}
