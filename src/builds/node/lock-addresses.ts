/**
 * Returns the hosts from which a package manager could not download: they do not exist or do not answer, or they want a login.
 * @param output of the installation.
 */
export function unreachableHosts(output: readonly string[]): string[] {
  const lines = output.map((line) => line.slice(0, lineLengthMax)).filter((line) => failedForms.test(line));
  const hosts = lines.flatMap((line) => {
    // Yarn 1 names only the host.
    const unknown = unknownName.exec(line)?.[2];
    const named = [...line.matchAll(/\bhttps?:\/\/([\w.-]+(?::\d+)?)\//g)].map(([, host = ""]) => host);
    return [...named.map((host) => host.replace(/:(?:443|80)$/, "")), ...(unknown === undefined ? [] : [unknown])];
  });
  return [...new Set(hosts)].filter((host) => !publicHosts.has(host));
}

/**
 * Returns why a package manager could not download, and what to do; null: no host is the cause.
 * @param output of the installation.
 */
export function unreachableCause(output: readonly string[]): string | null {
  const lines = output.map((line) => line.slice(0, lineLengthMax));
  for (const line of lines) {
    const [, code = "", host = ""] = unknownName.exec(line) ?? [];
    if (host !== "")
      return `The name ${host} cannot be resolved (${code}), so nothing can be downloaded from there. Let this server reach it. If it is a registry, another one can be named in .npmrc and in the lock file.`;
  }
  return null;
}

const unknownName = /\bgetaddrinfo (ENOTFOUND|EAI_AGAIN) ([\w.-]{1,253})/;

/** Longer than what a package manager reports of one package. */
const lineLengthMax = 2_000;

/** As npm, pnpm, Yarn and Bun report a download that failed. The last three stand for a proxy or registry that wants a login. */
const failedForms =
  /\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|CERT_\w+|ConnectionRefused|FailedToOpenSocket|UND_ERR_CONNECT_TIMEOUT|ERR_PNPM_META_FETCH_FAIL|ERR_PNPM_FETCH_40[137])\b|\bSELF_SIGNED_CERT|self[- ]signed certificate|\b40[137] (?:Unauthorized|Forbidden|Proxy Authentication)|\b(?:Unauthorized|Forbidden) - 40[137]\b|\brequest to http\S{1,500} failed\b|\bGET http\S{1,500} - 40[137]\b/;

/** Where they cannot be reached, addresses in a lock file are not the cause. */
const publicHosts: ReadonlySet<string> = new Set(["registry.npmjs.org", "registry.yarnpkg.com"]);

/**
 * Returns the text of a lock file without the addresses at some hosts, so that the package manager asks its own registry for the same
 * versions. An address without a checksum beside it stays, because another registry may have another package of that name.
 * @param file its name, which determines its form.
 * @returns null when no address was removed.
 */
export function withoutAddresses(file: string, text: string, hosts: readonly string[]): string | null {
  const edited = editors[file]?.(text, (address) => isRegistryAddress(address, hosts)) ?? null;
  return edited === text ? null : edited;
}

type IsMeant = (address: string) => boolean;

/** Archives of a registry, unlike most that a project names, have the version in their names. */
function isRegistryAddress(address: string, hosts: readonly string[]): boolean {
  if (!URL.canParse(address)) return false;
  const { host, pathname } = new URL(address);
  return hosts.includes(host) && /-\d[^/]*\.tgz$/.test(pathname);
}

const editors: Record<string, (text: string, isMeant: IsMeant) => string | null> = {
  "package-lock.json": ofNpm,
  "yarn.lock": ofYarn,
  "pnpm-lock.yaml": ofPnpm,
  "bun.lock": ofBun,
};

interface NpmEntry {
  resolved?: string;
  integrity?: string;
  /** Of version 1, which nests them. */
  dependencies?: Record<string, NpmEntry>;
}

function ofNpm(text: string, isMeant: IsMeant): string | null {
  try {
    const lock = JSON.parse(text) as { packages?: Record<string, NpmEntry>; dependencies?: Record<string, NpmEntry> };
    let removed = 0;
    const edit = (entries: Record<string, NpmEntry> = {}, depth = 0) => {
      for (const entry of Object.values(entries)) {
        if (typeof entry.resolved === "string" && entry.integrity !== undefined && isMeant(entry.resolved)) {
          delete entry.resolved;
          removed++;
        }
        if (depth < depthMax) edit(entry.dependencies, depth + 1);
      }
    };
    edit(lock.packages);
    // Version 2 repeats all packages for npm 6, which newer versions ignore.
    if (lock.packages === undefined) edit(lock.dependencies);
    return removed === 0 ? null : `${JSON.stringify(lock, null, 2)}\n`;
  } catch {
    return null;
  }
}

/** Deeper than any tree of packages. */
const depthMax = 100;

const yarnRegistry = "https://registry.yarnpkg.com";

/**
 * Yarn 1 chooses a version again when an address is missing, so it gets that of the public registry. Later versions have no address
 * but that of an archive with an unusual one.
 */
function ofYarn(text: string, isMeant: IsMeant): string {
  return text
    .split("\n\n")
    .map((block) => {
      const isChecked = /^ {2}(?:integrity|checksum:) \S/m.test(block);
      const [, name = ""] = /^"?(?:[^\s"]{1,200}@npm:)?((?:@[^/\s"]{1,200}\/)?[^@\s"]{1,200})@/m.exec(block) ?? [];
      return !isChecked
        ? block
        : block
            .replace(/^( {2}resolved ")([^"\n]+)"/m, (whole, start: string, address: string) => {
              const file = (address.split("/").at(-1) ?? "").replace(/\?[^#]*/, "");
              return isMeant(address) && name !== "" ? `${start}${yarnRegistry}/${name}/-/${file}"` : whole;
            })
            .replace(/::__archiveUrl=([^"\n:]+)/, (whole, address: string) =>
              isMeant(decodeURIComponent(address)) ? "" : whole,
            );
    })
    .join("\n\n");
}

function ofPnpm(text: string, isMeant: IsMeant): string {
  return text.replaceAll(
    /^(\s+resolution: \{integrity: [^,}\n]+)(?:, |,\s+)tarball: ([^,}\s]+)/gm,
    (whole, start: string, address: string) => (isMeant(address.replaceAll(/^["']|["']$/g, "")) ? start : whole),
  );
}

/** The second value of a package is its address, empty for the registry. The last one is its checksum. */
function ofBun(text: string, isMeant: IsMeant): string {
  return text.replaceAll(/^(\s+"[^"\n]+": \["[^"\n]+", )"(https?:[^"\n]+)"(?=.*"sha\d+-)/gm, (whole, start, address) =>
    isMeant(address as string) ? `${start as string}""` : whole,
  );
}
