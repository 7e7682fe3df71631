import { errors } from "../contract/error.ts";
import { repoUrlProblem } from "./git-url.ts";

interface Credential {
  token: string | null;
  sshKey: string | null;
  sshKnownHosts: string | null;
}

/** Checks a credential. @throws ApiError 400 `invalidField` if there is none, or for a key without its known hosts. */
export function checkCredential({ token, sshKey, sshKnownHosts }: Credential): void {
  if (token === null && sshKey === null) throw errors.invalidField("token", "or 'ssh_key' must be given.");
  if (sshKey === null) return;
  if (!/^-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n[\s\S]+\r?\n-----END [A-Z ]*PRIVATE KEY-----\s*$/.test(sshKey)) {
    throw errors.invalidField("ssh_key", "must be a private key in PEM or OpenSSH form.");
  }
  if (sshKnownHosts === null) {
    throw errors.invalidField("ssh_known_hosts", "must be given with 'ssh_key'; ssh-keyscan prints it.");
  }
  if (!sshKnownHosts.split(/\r?\n/).some((line) => /^[^#\s@]\S* (ssh|ecdsa|sk-)[\w@.-]+ [A-Za-z0-9+/=]+/.test(line))) {
    throw errors.invalidField("ssh_known_hosts", "must hold lines of known_hosts(5): host, type and key.");
  }
}

/**
 * Returns the normalized address for whose repositories a credential is used.
 * @throws ApiError 400 `invalidField`.
 */
export function integrationUrl(text: string, { token }: Pick<Credential, "token">): string {
  const refuse = (because: string) => errors.invalidField("url", because);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isSsh = url?.protocol === "ssh:";
  if (url === undefined || !["https:", "http:", "ssh:"].includes(url.protocol) || (isSsh && token !== null)) {
    throw refuse("must be https://<host>/<path>, or ssh://<host>/<path> for an SSH key alone.");
  }
  if (url.search !== "" || url.hash !== "") throw refuse("must not have a query or fragment.");
  // The rules for a repository apply, because repositories lie below the address.
  const problem = repoUrlProblem(new URL("a/b", url.href.replace(/\/*$/, "/")).href, false);
  if (problem !== null || /%2f|%5c|%2e/i.test(url.pathname) || (!isSsh && !/^[\w.:[\]-]+$/.test(url.host))) {
    throw refuse(problem ?? "must not contain encoded slashes, dots or unusual characters.");
  }
  return url.href.replace(/\/+$/, "");
}
