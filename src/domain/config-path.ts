import { errors } from "../contract/error.ts";
import { configPathLengthMax } from "./limits.ts";

/**
 * Checks the path of the config file: inside the repository or archive, relative, without `..`, a `.json` file. Blanks are
 * allowed.
 * @throws ApiError 400 `invalidField`.
 */
export function checkConfigPath(path: string): void {
  const because = configPathProblem(path);
  if (because !== null) throw errors.invalidField("source_revision_config.langgraph_config_path", because);
}

export function configPathProblem(path: string): string | null {
  if (path.length > configPathLengthMax) return `must have at most ${configPathLengthMax} characters.`;
  if (/\p{Cc}/u.test(path)) return "must not contain control characters.";
  if (path.startsWith("/") || path.includes("\\")) return "must be relative to the root, with / between its parts.";
  if (path.split("/").includes("..")) return "must not contain '..'.";
  return /[^/]\.json$/.test(path) ? null : "must name a .json file.";
}
