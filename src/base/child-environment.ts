/**
 * Variables of this process that programs may inherit: where programs and certificates are, which proxy to use, the locale, and
 * how Node starts. Everything else may be a secret of the operator, such as `DATABASE_URL` or `PIERHEAD_MASTER_KEY`.
 */
const inherited: ReadonlySet<string> = new Set(
  [
    "PATH HOME USER LOGNAME TMPDIR TZ TERM LANG LC_ALL LC_CTYPE LC_MESSAGES LD_LIBRARY_PATH DYLD_LIBRARY_PATH",
    "HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy",
    "NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE GIT_SSL_CAINFO GIT_SSL_CAPATH",
    "NODE_OPTIONS NODE_COMPILE_CACHE NODE_DISABLE_COMPILE_CACHE",
  ].flatMap((line) => line.split(" ")),
);

/**
 * Returns the environment for a program that this process starts. Give it to every `spawn` and `fork`: without an environment they
 * pass on the whole one of this process.
 * @param isAlsoNeeded names of further variables that this program needs.
 */
export function childEnvironment(isAlsoNeeded: (name: string) => boolean = () => false): Record<string, string> {
  const own = Object.entries(process.env);
  return Object.fromEntries(
    own.filter((entry): entry is [string, string] => {
      const [name, value] = entry;
      return value !== undefined && (inherited.has(name) || isAlsoNeeded(name));
    }),
  );
}
