import { showCommand } from "../detect/command-line.ts";

/** What a server needs before and at its start, beside its start command. */
export interface Launch {
  /** Variables with the values that they have unless the deployment sets them. */
  variables: Readonly<Record<string, string>>;
  /** Programs that run one after another before the server, such as the migration of its database. */
  before: readonly (readonly string[])[];
  /** Directory with programs for it, relative to its working directory; null: none. */
  programs: string | null;
}

/** Modules that Node loads before the server's own. @param modules their file: addresses, in which a shell must expand nothing. */
const preloads = (modules: readonly string[]) =>
  `export NODE_OPTIONS="${modules.map((one) => `--import ${one.replaceAll("$", "%24")}`).join(" ")}\${NODE_OPTIONS:+ $NODE_OPTIONS}"`;

/**
 * Returns the program and arguments that start a server after the rest of its launch. A shell runs what precedes the server, which
 * then replaces it.
 * @param modules addresses of modules that Node loads first.
 */
export function launchLine(
  argv: readonly string[],
  { variables, before, programs }: Launch,
  modules: readonly string[] = [],
): string[] {
  const lines = [
    ...(programs === null ? [] : [`export PATH="$PWD/${programs}:$PATH"`]),
    ...Object.entries(variables).map(([name, value]) => `export ${name}="\${${name}:-${value}}"`),
    ...before.map((command) => showCommand([...command])),
    ...(modules.length === 0 ? [] : [preloads(modules)]),
  ];
  return lines.length === 0 ? [...argv] : ["sh", "-c", [...lines, 'exec "$0" "$@"'].join(" && "), ...argv];
}

/**
 * Whether commands run before the server in the same start, such as the migration of a database. The first replica of a version then
 * starts alone, so that no two of them do that work at once.
 */
export const startsAlone = (start: readonly string[], launch: Launch | undefined): boolean =>
  (launch?.before.length ?? 0) > 0 || (start[0] === "sh" && start[1] === "-c");

/** Returns what starts a server as people would write it. */
export const showLaunch = (argv: readonly string[], { variables, before }: Launch): string =>
  [
    ...before.map((command) => showCommand([...command])),
    [...Object.entries(variables).map(([name, value]) => `${name}=${value}`), showCommand([...argv])].join(" "),
  ].join(" && ");
