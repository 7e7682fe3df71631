import path from "node:path";
import { showCommand } from "../detect/command-line.ts";
import { joinSteps, parseStartLine } from "../detect/start-line.ts";
import { BuildFailure } from "../failure.ts";
import { isFileInside, readInside } from "../sources/inside.ts";
import { findProgram } from "../worker/environment.ts";
import { installCommand } from "./install-command.ts";
import { findManagedStart, type ManagedStart } from "./managed-start.ts";

/** Prefix of a command that is a script of package.json. */
const scriptPrefix = "script:";

export const isScript = ([first = ""]: readonly string[]) => first.startsWith(scriptPrefix);

/** Returns a command as people write it. */
export const shownCommand = (argv: string[]) => (isScript(argv) ? ["npm", "run", scriptName(argv)] : argv);

/**
 * Returns the program and arguments that run a script, with the package manager of the project.
 * @param isStart of a server, where npm runs it instead: a replica has npm, but would have to download another one at each start.
 */
export async function scriptCommand(
  sourceDir: string,
  directory: string,
  { argv, searchPath, isStart = false }: { argv: readonly string[]; searchPath: string; isStart?: boolean },
): Promise<string[]> {
  const install = await installCommand(sourceDir, directory, searchPath);
  const scripts = await readScripts(sourceDir, directory);
  const name = scriptName(argv);
  const called = [`pre${name}`, name, `post${name}`].map((one) => scripts[one] ?? "").join(" ; ");
  const own = install?.manager ?? ["npm"];
  const npm = own.includes("--force") ? ["npm", "--force"] : ["npm"];
  const manager = isStart && !otherManagers.some(({ calls }) => calls.test(called)) ? npm : own;
  const lacking = otherManagers.filter(
    ({ program, calls }) =>
      calls.test(called) && !manager.includes(program) && findProgram(program, searchPath) === null,
  );
  const packages = lacking.map(({ brings }) => `--package=${brings}`);
  return [...(packages.length === 0 ? [] : ["npm", "exec", "--yes", ...packages, "--"]), ...manager, "run", name];
}

/** Programs that scripts call in projects that another package manager installs. npm brings those that this machine lacks. */
const otherManagers = [
  { program: "bun", brings: "bun@1" },
  { program: "pnpm", brings: "pnpm@10" },
  { program: "yarn", brings: "yarn@1" },
].map((one) => ({
  ...one,
  calls: new RegExp(`(?:^|[;&|]\\s*)(?:\\w+=[^\\s;&|]+\\s+)*${one.program}${one.program === "bun" ? "x?" : ""}\\s`),
}));

export const scriptName = ([first = ""]: readonly string[]) => first.slice(scriptPrefix.length);

/**
 * Returns the program and arguments that start a server, without a package manager between them where possible: it would
 * take memory and time at each start, and delay the signal to stop.
 * @param start as in `CommandProject`.
 */
export async function startCommand(
  sourceDir: string,
  directory: string,
  { start, searchPath }: { start: readonly string[]; searchPath: string },
): Promise<string[]> {
  const managed = await managedStart(sourceDir, directory, start);
  if (managed !== null) return startManaged(sourceDir, directory, managed);
  if (!isScript(start)) return withOwnProgram(sourceDir, directory, start);
  const viaManager = () => scriptCommand(sourceDir, directory, { argv: start, searchPath, isStart: true });
  const scripts = await readScripts(sourceDir, directory);
  const name = scriptName(start);
  const text = scripts[name];
  if (text === undefined || scripts[`pre${name}`] !== undefined) return viaManager();
  try {
    const { argv, cwd } = parseStartLine(text, { cwd: ".", what: `script ${name}` });
    const program = argv.find((word) => word !== "env" && !/^\w+=/.test(word)) ?? "";
    const isHere = program === "bun" && findProgram(program, searchPath) !== null;
    if (cwd !== "." || (!isHere && /^(npm|npx|yarn|pnpm|bunx?|turbo|nx|cross-env|dotenv|sh)$/.test(program)))
      return await viaManager();
    return await withOwnProgram(sourceDir, directory, argv.map(toleratesMissingFile));
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    return viaManager(); // npm runs what needs a shell
  }
}

/** Returns what pm2 would start in a start command, or in the script that it names; null: nothing that Pierhead can start. */
export const managedStart = (
  sourceDir: string,
  directory: string,
  start: readonly string[],
): Promise<ManagedStart | null> =>
  findManagedStart(sourceDir, directory, {
    argv: isScript(start) ? ["npm", "run", scriptName(start)] : start,
    scripts: (place) => readScripts(sourceDir, place),
  });

async function startManaged(sourceDir: string, directory: string, managed: ManagedStart): Promise<string[]> {
  const { argv, cwd } = managed.server;
  const server = await withOwnProgram(sourceDir, path.posix.join(directory, cwd), argv);
  return joinManaged({ ...managed, server: { argv: server, cwd } });
}

/** Returns one command for all programs of such a start. */
export const joinManaged = ({ before, server }: ManagedStart): string[] =>
  joinSteps([...before.map(({ argv, cwd }) => ({ argv: beforeCommand(argv), cwd })), server], ".");

/**
 * Returns the program and arguments of a command before the start. npm finds programs of the project's packages, and runs its
 * scripts, because a machine that runs agents needs no other package manager.
 */
export function beforeCommand([program = "", ...rest]: readonly string[]): string[] {
  const set = program === "env" ? rest.find((word) => !/^\w+=/.test(word)) : program;
  if (/^(?:node|npm|npx|sh)$/.test(set ?? "")) return [program, ...rest];
  // Without --call, npm finds only programs of packages, not those of the machine.
  if (!/^(?:pnpm|yarn|bunx?)$/.test(program)) return ["npm", "exec", "--no", "--call", showCommand([program, ...rest])];
  const [first = "", ...others] = rest;
  if (program === "bunx" || /^(?:exec|dlx|x)$/.test(first))
    return ["npm", "exec", "--yes", "--", ...(program === "bunx" ? rest : others)];
  return ["npm", "run", ...(first === "run" ? others : rest)];
}

/** A `.env` file is not part of a source: the deployment has its variables. */
const toleratesMissingFile = (word: string) => word.replace(/^--env-file(?==|$)/, "--env-file-if-exists");

/** Replaces a program of the project's packages by its path, because the PATH of an agent server has only programs of the machine. */
export async function withOwnProgram(sourceDir: string, directory: string, argv: readonly string[]): Promise<string[]> {
  const at = argv[0] === "env" ? argv.findIndex((word, index) => index > 0 && !/^\w+=/.test(word)) : 0;
  const program = argv[at] ?? "";
  if (program.includes("/")) return [...argv];
  for (let place = path.posix.normalize(directory); ; place = path.posix.dirname(place)) {
    const file = path.posix.join(place, "node_modules/.bin", program);
    if (await isFileInside(sourceDir, file)) {
      const relative = path.posix.relative(directory, file);
      return argv.with(at, relative.startsWith(".") ? relative : `./${relative}`);
    }
    if (place === ".") return [...argv];
  }
}

/** Returns the scripts of the package.json in a directory, relative to the root of the source. */
export async function readScripts(sourceDir: string, directory: string): Promise<Record<string, string>> {
  try {
    const text = await readInside(sourceDir, path.posix.join(directory, "package.json"));
    const { scripts } = JSON.parse(text ?? "{}") as {
      scripts?: Record<string, string>;
    };
    return scripts ?? {};
  } catch {
    return {};
  }
}
