import { errors } from "../contract/error.ts";
import { urlLengthMax } from "./limits.ts";

/**
 * Checks a repository URL that git can be given safely: `https://`, `http://`, `ssh://` or `user@host:path`. It refuses
 * everything that makes git run a program, read an option or access this host. The address of a host name is checked when
 * it is used.
 *
 * @throws ApiError 400 `invalidField`.
 */
export function checkRepoUrl(url: string, { allowLocalSources }: { allowLocalSources: boolean }): void {
  const because = repoUrlProblem(url, allowLocalSources);
  if (because !== null) throw errors.invalidField("source_config.repo_url", because);
}

/** Returns why a repository URL is refused, as the end of a sentence; null: it is valid. */
export function repoUrlProblem(url: string, allowLocalSources: boolean): string | null {
  if (url === "" || url.length > urlLengthMax) return `must have 1 to ${urlLengthMax} characters.`;
  if (/\p{Cc}/u.test(url) || url !== url.trim()) return "must not contain control characters or outer blanks.";
  if (url.startsWith("-")) return "must not start with '-'.";
  if (/^[\w.+-]*::/.test(url)) return "must not name a git remote helper.";
  if (url.startsWith("/") || url.startsWith("file:")) return localProblem(url, allowLocalSources);
  if (url.includes("://")) return urlProblem(url);
  return scpProblem(url);
}

const usable = "must be https://<host>/<path>, ssh://<user>@<host>/<path> or <user>@<host>:<path>.";
const credentials = "must not contain a password or token; store it in an integration and name that in integration_id.";

function localProblem(url: string, allowLocalSources: boolean): string | null {
  if (!allowLocalSources) return "names a path of this server, which its operator does not allow.";
  const isPath = url.startsWith("/") || (url.startsWith("file:///") && URL.canParse(url));
  if (!isPath) return "must be an absolute path or file:///<path>.";
  return url.split(/[/\\]|%2f/i).some((part) => part === ".." || /^%2e%2e$/i.test(part))
    ? "must not contain '..'."
    : null;
}

function urlProblem(text: string): string | null {
  if (!URL.canParse(text)) return usable;
  const url = new URL(text);
  if (!["https:", "http:", "ssh:"].includes(url.protocol)) return usable;
  if (url.password !== "" || (url.protocol !== "ssh:" && url.username !== "")) return credentials;
  if (url.search !== "" || url.hash !== "") return "must not have a query or fragment.";
  // A host or user that starts with a dash would become an option such as `ssh -oProxyCommand=...`.
  if (url.hostname === "" || url.hostname.startsWith("-") || decodeURIComponent(url.username).startsWith("-"))
    return usable;
  return url.pathname === "/" || url.pathname === "" ? usable : null;
}

function scpProblem(text: string): string | null {
  const isScp = /^[A-Za-z0-9_][\w.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:\s-][^\s]*$/.test(text);
  return isScp ? null : usable;
}
