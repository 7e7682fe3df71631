import { accessSync, constants, existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { childEnvironment } from "../../base/child-environment.ts";
import { buildMark } from "./processes.ts";

/**
 * Variables of Pierhead's own environment that a build's programs may see: proxies, certificates, registries and the locale.
 */
const passedOn = new Set(
  [
    "LANG LC_ALL LC_CTYPE TZ TERM USER LOGNAME",
    "HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy",
    "NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE GIT_SSL_CAINFO",
    "npm_config_registry npm_config_cafile npm_config_ca npm_config_proxy npm_config_https_proxy npm_config_noproxy",
    "npm_config_strict_ssl NPM_CONFIG_REGISTRY",
    "npm_config_fetch_retries npm_config_fetch_retry_mintimeout npm_config_fetch_retry_maxtimeout",
    "PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_NO_INDEX PIP_FIND_LINKS PIP_TRUSTED_HOST PIP_CERT PIP_CLIENT_CERT PIP_PROXY",
    "PIP_DEFAULT_TIMEOUT PIP_RETRIES UV_DEFAULT_INDEX UV_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL UV_NO_INDEX UV_FIND_LINKS",
    "UV_INSECURE_HOST UV_NATIVE_TLS UV_SYSTEM_CERTS UV_HTTP_TIMEOUT UV_PYTHON_DOWNLOADS UV_PYTHON_INSTALL_MIRROR",
  ].flatMap((line) => line.split(" ")),
);

/** Scope registries, named indexes and their credentials are variables with names of these forms. */
const passedOnPattern = /^npm_config_(@|\/\/)|^UV_INDEX_\w+_(USERNAME|PASSWORD)$/i;

/**
 * Returns the complete environment of one build: its own home directory, the shared package cache, the operator's registry
 * settings, and the mark that identifies its processes. It contains nothing else of this server. The running Node is first on PATH.
 */
export function buildEnvironment(
  host: NodeJS.ProcessEnv,
  build: { buildId: string; workerPid: number; homeDir: string; tempDir: string; cacheDir: string; nodePath: string },
): Record<string, string> {
  const userConfig = npmUserConfig(host);
  return {
    ...(userConfig !== null && namesWaits(readFileSync(userConfig, "utf8")) ? {} : downloadRetries),
    ...pick(host, (name) => passedOn.has(name) || passedOnPattern.test(name)),
    ...(userConfig === null ? {} : { npm_config_userconfig: userConfig, ...referredIn(userConfig, host) }),
    PATH: [
      path.dirname(build.nodePath),
      host["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
      ...unlistedDirectories(host),
    ].join(path.delimiter),
    HOME: build.homeDir,
    TMPDIR: build.tempDir,
    ...packageManagerSettings,
    npm_config_cache: path.join(build.cacheDir, "npm"),
    npm_config_prefer_offline: "true",
    YARN_CACHE_FOLDER: path.join(build.cacheDir, "yarn"),
    PNPM_HOME: path.join(build.cacheDir, "pnpm"),
    BUN_INSTALL_CACHE_DIR: path.join(build.cacheDir, "bun"),
    ...pipUserConfig(host),
    PIP_CACHE_DIR: path.join(build.cacheDir, "pip"),
    PIP_DISABLE_PIP_VERSION_CHECK: "1",
    PIP_NO_INPUT: "1",
    PIP_PROGRESS_BAR: "off",
    PIP_ROOT_USER_ACTION: "ignore",
    UV_CACHE_DIR: path.join(build.cacheDir, "uv"),
    // Not directly in the cache directory: uv takes a `toolchains` directory beside it for its own of an old version and moves it.
    UV_PYTHON_INSTALL_DIR: path.join(build.cacheDir, "uv-managed", "python"),
    UV_NO_PROGRESS: "1",
    LANGGRAPH_CLI_NO_ANALYTICS: "1",
    ...buildMark(build),
  };
}

/**
 * How long npm and pnpm wait between attempts at a download, in milliseconds. With their own values, a host whose name cannot be
 * resolved holds a build for more than a minute before it fails.
 */
export const downloadRetries: Readonly<Record<string, string>> = {
  npm_config_fetch_retry_mintimeout: "1000",
  npm_config_fetch_retry_maxtimeout: "5000",
};

/** Whether an .npmrc says how long to wait between those attempts. */
export const namesWaits = (npmrc: string): boolean => /^\s*fetch-retry/m.test(npmrc);

/** Settings of package managers that are the same on this host and in an image. */
export const packageManagerSettings: Readonly<Record<string, string>> = {
  CI: "true",
  NO_COLOR: "1",
  npm_config_audit: "false",
  npm_config_fund: "false",
  npm_config_update_notifier: "false",
  npm_config_progress: "false",
  npm_config_yes: "true",
  // Variables win over the .npmrc of a source, which could name programs of its own for both.
  npm_config_script_shell: "sh",
  npm_config_git: "git",
  // The agent runs on the Node of the build, whichever version its packages were written for.
  npm_config_engine_strict: "false",
  COREPACK_ENABLE_DOWNLOAD_PROMPT: "0",
};

/** Returns what a build worker inherits of this server: all that its builds may see, and the files of settings to look for. */
export function workerEnvironment(): Record<string, string> {
  const forBuilds = (name: string) => passedOn.has(name) || passedOnPattern.test(name) || settingsFiles.has(name);
  const userConfig = npmUserConfig(childEnvironment(forBuilds));
  const referred = userConfig === null ? new Set<string>() : namesIn(userConfig);
  return childEnvironment((name) => forBuilds(name) || referred.has(name));
}

const settingsFiles: ReadonlySet<string> = new Set([
  ...["npm_config_userconfig", "NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE", "XDG_CONFIG_HOME"],
]);

/** Returns the path of the first executable with this name on PATH. */
export function findProgram(name: string, searchPath: string): string | null {
  return findPrograms(name, searchPath)[0] ?? null;
}

/** Returns the paths of all executables with this name on PATH, in its order. */
export function findPrograms(name: string, searchPath: string): string[] {
  return searchPath.split(path.delimiter).flatMap((directory) => {
    const file = path.join(directory, name);
    try {
      accessSync(file, constants.X_OK);
      return [file];
    } catch {
      return []; // not in this directory
    }
  });
}

/**
 * Returns directories with programs that a user's shell finds and a service often does not: uv, Homebrew, and the versions of
 * Python that version managers install. They come last on PATH.
 */
function unlistedDirectories(host: NodeJS.ProcessEnv): string[] {
  const home = host["HOME"] ?? "/";
  const managed = [
    path.join(host["PYENV_ROOT"] ?? path.join(home, ".pyenv"), "versions"),
    path.join(home, ".local/share/uv/python"),
    path.join(home, ".local/share/mise/installs/python"),
    path.join(home, ".asdf/installs/python"),
    "/Library/Frameworks/Python.framework/Versions",
  ];
  const versions = managed.flatMap((directory) => listed(directory).map((name) => path.join(directory, name, "bin")));
  const common = [path.join(home, ".local/bin"), path.join(home, ".cargo/bin"), "/usr/local/bin", "/opt/homebrew/bin"];
  return [...common, ...versions].filter((directory) => existsSync(directory));
}

/** Newest first, by the numbers in the names. */
function listed(directory: string): string[] {
  try {
    return readdirSync(directory).sort((a, b) => b.localeCompare(a, "en", { numeric: true }));
  } catch {
    return [];
  }
}

/** Returns the operator's npm settings (registries, certificates) for builds, because their HOME does not contain them. */
function npmUserConfig(host: NodeJS.ProcessEnv): string | null {
  const file =
    host["npm_config_userconfig"] ?? host["NPM_CONFIG_USERCONFIG"] ?? path.join(host["HOME"] ?? "/", ".npmrc");
  return existsSync(file) ? file : null;
}

/** Returns the operator's pip settings for builds. */
function pipUserConfig(host: NodeJS.ProcessEnv): Record<string, string> {
  const home = host["HOME"] ?? "/";
  const configHome = host["XDG_CONFIG_HOME"] ?? path.join(home, ".config");
  const usual = [path.join(configHome, "pip/pip.conf"), path.join(home, ".pip/pip.conf")];
  const file = host["PIP_CONFIG_FILE"] ?? usual.find((place) => existsSync(place));
  return file === undefined ? {} : { PIP_CONFIG_FILE: file };
}

/** Returns the variables that an .npmrc refers to, such as `${NPM_TOKEN}`: npm rejects the file if one is missing. */
function referredIn(file: string, host: NodeJS.ProcessEnv): Record<string, string> {
  const names = namesIn(file);
  return pick(host, (name) => names.has(name));
}

const namesIn = (file: string): ReadonlySet<string> =>
  new Set([...readFileSync(file, "utf8").matchAll(/\$\{(\w+)\??\}/g)].map(([, name = ""]) => name));

function pick(host: NodeJS.ProcessEnv, isWanted: (name: string) => boolean): Record<string, string> {
  return Object.fromEntries(
    Object.entries(host).filter((entry): entry is [string, string] => entry[1] !== undefined && isWanted(entry[0])),
  );
}
