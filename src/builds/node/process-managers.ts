import { readFile } from "node:fs/promises";
import path from "node:path";
import { isFileInside } from "../sources/inside.ts";

/** What starts a server, as a process manager reads it. */
interface Managed {
  program: string;
  args: string[];
  /** `NAME=value`. */
  assignments: string[];
}

const assignment = /^\w+=/;

/** Options of pm2 that a value follows. */
const valued = new Set([
  ...["-n", "--name", "-i", "--instances", "--max-memory-restart", "-l", "--log", "-o", "--output", "-e", "--error"],
  ...["--cwd", "--watch-delay", "--kill-timeout", "--restart-delay", "--exp-backoff-restart-delay", "--namespace"],
]);

/**
 * Returns the program that pm2 would start. Pierhead restarts and scales replicas itself, and pm2 would hide from it that the program
 * crashes: pm2 restarts it without end, or moves it to the background, where it is not stopped.
 * @param argv a command, whose first words may set variables.
 * @param directory of the command, relative to the root of the source.
 * @returns the same command when pm2 does not start it, or starts something else than one program of Node.
 */
export async function withoutProcessManager(
  sourceDir: string,
  directory: string,
  argv: readonly string[],
): Promise<string[]> {
  const at = argv.findIndex((word) => !/^(?:cross-env|env|npx)$/.test(word) && !assignment.test(word));
  const [program = "", ...words] = at === -1 ? [] : argv.slice(at);
  if (!/^(?:pm2|pm2-runtime|pm2-docker)$/.test(program)) return [...argv];
  const rest = words[0] === "start" ? words.slice(1) : words;
  if (program === "pm2" && words[0] !== "start") return [...argv];
  const found = await managedIn(sourceDir, directory, rest);
  if (found === null) return [...argv];
  const assignments = [...found.assignments, ...argv.slice(0, at).filter((word) => assignment.test(word))];
  const command = [found.program, ...found.args];
  return assignments.length === 0 ? command : ["env", ...assignments, ...command];
}

async function managedIn(sourceDir: string, directory: string, words: readonly string[]): Promise<Managed | null> {
  const options = words.includes("--") ? words.slice(0, words.indexOf("--")) : words;
  const args = words.slice(options.length + 1);
  const valueAfter = (name: string) => options[options.indexOf(name) + 1] ?? null;
  const named = options.includes("--interpreter") ? valueAfter("--interpreter") : null;
  const targets = options.filter(
    (word, index) => !word.startsWith("-") && !isValue(options[index - 1]) && options[index - 1] !== "--env",
  );
  const [target] = targets;
  if (target === undefined || options.includes("--cwd")) return null;
  if (!/(?:\.config\.c?js|\.json|\.ya?ml)$/.test(target)) return managed(target, { args, interpreter: named });
  const file = path.posix.join(directory, target);
  if (!(await isFileInside(sourceDir, file))) return null;
  const environment = options.includes("--env") ? valueAfter("--env") : null;
  return fromConfig(await readFile(path.join(sourceDir, file), "utf8"), environment);
}

const isValue = (before: string | undefined) => valued.has(before ?? "") || before === "--interpreter";

/** Reads a configuration of pm2 with one program. One that computes its values is left to pm2. */
function fromConfig(text: string, environment: string | null): Managed | null {
  const plain = text.replaceAll(/^[ \t]*\/\/.*$|\/\*[^*]*\*\//gm, "");
  const valuesOf = (key: string) =>
    [...plain.matchAll(new RegExp(`(?<![\\w-])["']?${key}["']?\\s*:\\s*["'\`]([^"'\`\\n$]{0,500})["'\`]`, "g"))].map(
      (match) => match[1] ?? "",
    );
  const [script, ...others] = valuesOf("script");
  const [directory = "."] = valuesOf("cwd");
  if (script === undefined || others.length > 0 || !/^\.?\/?$/.test(directory)) return null;
  const variablesOf = (key: string) =>
    new RegExp(`(?<![\\w-])["']?${key}["']?\\s*:\\s*\\{([^{}]*)\\}`).exec(plain)?.[1] ?? "";
  const blocks = ["env", ...(environment === null ? [] : [`env_${environment}`])].map(variablesOf);
  const pairs = blocks.flatMap((block) => [
    ...block.matchAll(/["']?(\w+)["']?\s*:\s*(?:["'`]([^"'`\n$]*)["'`]|(\d+|true|false))/g),
  ]);
  // The replica has an address of its own.
  const variables = new Map(pairs.map(([, name = "", text, literal]) => [name, text ?? literal ?? ""]));
  const assignments = [...variables].filter(([name]) => !/^(?:PORT|HOST|HOSTNAME)$/.test(name));
  const args = (valuesOf("args")[0] ?? "").split(/\s+/).filter((word) => word !== "");
  const found = managed(script, { args, interpreter: valuesOf("interpreter")[0] ?? null });
  return found && { ...found, assignments: assignments.map(([name, value]) => `${name}=${value}`) };
}

function managed(
  script: string,
  { args, interpreter }: { args: string[]; interpreter: string | null },
): Managed | null {
  if (interpreter !== null && interpreter !== "none" && interpreter !== "node")
    return { program: interpreter, args: [script, ...args], assignments: [] };
  // A program such as npm, which pm2 finds on the PATH.
  if (interpreter === "none" || /^(?:npm|yarn|pnpm|bun)$/.test(script))
    return { program: script, args, assignments: [] };
  if (/\.[cm]?tsx?$/.test(script)) return null;
  return { program: "node", args: [script, ...args], assignments: [] };
}
