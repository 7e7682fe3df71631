import { errors } from "../contract/error.ts";
import { condaFileNames } from "./detection/install-files.ts";
import { configPathLengthMax } from "./limits.ts";

/** Configurations of Deno. */
export const denoConfigs = ["deno.json", "deno.jsonc"] as const;

/** Files from which a server is recognized when there is no configuration, nearest to a configuration first. */
export const projectFileNames = [
  "aegra.json",
  "Procfile",
  "pyproject.toml",
  "requirements.txt",
  "Pipfile",
  "setup.py",
  "package.json",
  ...condaFileNames,
  ...denoConfigs,
] as const;

/** Returns whether a server is recognized from the files beside a file with this name. */
export const isProjectFile = (name: string) => (projectFileNames as readonly string[]).includes(name);

/** The path of the configuration that clients send when the user names none. */
export const usualConfigPath = "langgraph.json";

/** The two names of one setting. */
export type ConfigPathField = "langgraph_config_path" | "framework_config_path";

/** The file that an image build uses. */
export const dockerfileName = "Dockerfile";

/**
 * Checks the path of the config file: inside the repository or archive, relative, without `..`, a `.json` file or a file from
 * which a server is recognized. Blanks are allowed.
 * @param field the name by which the request sent it.
 * @throws ApiError 400 `invalidField`.
 */
export function checkConfigPath(path: string, field: ConfigPathField = "langgraph_config_path"): void {
  const because = configPathProblem(path);
  if (because !== null) throw errors.invalidField(`source_revision_config.${field}`, because);
}

export function configPathProblem(path: string): string | null {
  if (path.length > configPathLengthMax) return `must have at most ${configPathLengthMax} characters.`;
  if (/\p{Cc}/u.test(path)) return "must not contain control characters.";
  if (path.startsWith("/") || path.includes("\\")) return "must be relative to the root, with / between its parts.";
  if (path.split("/").includes("..")) return "must not contain '..'.";
  const name = path.split("/").at(-1) ?? "";
  return isProjectFile(name) || name === dockerfileName || /[^/]\.json$/.test(path) ? null : "must name a .json file.";
}
