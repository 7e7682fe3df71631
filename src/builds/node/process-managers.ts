import path from "node:path";
import { projectReader } from "../detect/project-reader.ts";

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
  ...["--watch-delay", "--kill-timeout", "-k", "--restart-delay", "--exp-backoff-restart-delay", "--namespace"],
  ...["--max-restarts", "--listen-timeout", "--log-date-format", "--log-type", "-c", "--cron", "--cron-restart"],
  ...["-p", "--pid", "--ignore-watch", "--only", "--stop-exit-codes", "--machine-name", "--secret", "--public"],
  ...["--env", "--interpreter", "--node-args", "--interpreter-args"],
]);

/** Options of pm2 that stand alone. */
const flags = new Set([
  ...["--no-daemon", "--no-autorestart", "--watch", "--time", "-f", "--force", "-a", "--update-env", "--attach", "-s"],
  ...["--silent", "--merge-logs", "--wait-ready", "--no-vizion", "--no-treekill", "--no-color", "--no-pmx", "--raw"],
  ...["--json", "--format", "--formatted", "--source-map-support", "--disable-logs", "--no-auto-exit", "--trace", "-m"],
  ...["--auto-exit", "--shutdown-with-message", "-x", "--execute-command", "--disable-source-map-support", "--v8"],
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
  const end = words.indexOf("--");
  const args = end === -1 ? [] : words.slice(end + 1);
  const read = readOptions(end === -1 ? words : words.slice(0, end));
  const [target, ...others] = read?.targets ?? [];
  if (read === null || target === undefined || others.length > 0) return null;
  const { options } = read;
  const nodeArgs = wordsOf(options.get("--node-args") ?? options.get("--interpreter-args") ?? "");
  if (!/\.config\.[cm]?js$|\.json$|\.ya?ml$/.test(target))
    return managed(target, { args, nodeArgs, interpreter: options.get("--interpreter") ?? null });
  // Values of YAML need no quotes, so that those which are computed look the same.
  const text = /\.ya?ml$/.test(target) ? null : await projectReader(sourceDir, directory).read(target);
  return text === null ? null : fromConfig(text, { environment: options.get("--env") ?? null, target });
}

/** Returns null for an option that is not known: it may have a value, or change what pm2 starts. */
function readOptions(words: readonly string[]): { options: Map<string, string>; targets: string[] } | null {
  const options = new Map<string, string>();
  const targets: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    const [, name = word, value] = /^(--[\w-]+)=(.*)$/.exec(word) ?? [];
    if (!word.startsWith("-")) targets.push(word);
    else if (valued.has(name)) options.set(name, value ?? words[++at] ?? "");
    else if (!flags.has(name)) return null;
  }
  return { options, targets };
}

const wordsOf = (text: string) => text.split(/\s+/).filter((word) => word !== "");

/** Reads a configuration of pm2 with one program. One that computes its values is left to pm2. */
function fromConfig(
  text: string,
  { environment, target }: { environment: string | null; target: string },
): Managed | null {
  const plain = text.replaceAll(/^[ \t]*\/\/.*$|\/\/[^\n"'`]{0,200}$|\/\*[^*]*\*\//gm, "");
  const isBesideCommand = !path.posix.normalize(target).includes("/");
  const [script, cwd, args, interpreter, nodeArgs, env] = [
    literalsOf(plain, "script"),
    literalsOf(isBesideCommand ? plain.replaceAll(/(\bcwd["']?\s*:\s*)__dirname\b/g, '$1"."') : plain, "cwd"),
    literalsOf(plain, "args"),
    literalsOf(plain, "interpreter"),
    literalsOf(plain, "(?:node|interpreter)_args"),
    variablesOf(plain, environment),
  ];
  const [first] = script ?? [];
  if (script?.length !== 1 || first?.length !== 1 || !cwd || !args || !interpreter || !nodeArgs || !env) return null;
  if (/["']?\b(?:exec_interpreter|nodeArgs|interpreterArgs|exec|env_file)["']?\s*:/.test(plain)) return null;
  if (cwd.some(([one = ""]) => !/^(?:\.\/?)?$/.test(one))) return null;
  const found = managed(first[0] ?? "", {
    args: (args[0] ?? []).flatMap((one, _, { length }) => (length === 1 ? wordsOf(one) : [one])),
    nodeArgs: (nodeArgs[0] ?? []).flatMap(wordsOf),
    interpreter: interpreter[0]?.[0] ?? null,
  });
  return found && { ...found, assignments: env.map(([name, value]) => `${name}=${value}`) };
}

const quoted = `(?:"[^"\\\\\\n]{0,500}"|'[^'\\\\\\n]{0,500}')`;

/**
 * Returns the values of a key, each as the strings in it: one, or those of a list.
 * @returns null when one of the values is computed.
 */
function literalsOf(text: string, key: string): string[][] | null {
  const form = `(?<![\\w-])["']?${key}["']?\\s*:`;
  const list = `\\[\\s*(?:${quoted}\\s*(?:,\\s*)?){0,50}\\]`;
  const values = [...text.matchAll(new RegExp(`${form}\\s*(${quoted}|${list})\\s*(?=[,}\\n]|$)`, "g"))];
  if (values.length !== (text.match(new RegExp(form, "g")) ?? []).length) return null;
  return values.map(([, value = ""]) => [...value.matchAll(new RegExp(quoted, "g"))].map(([one]) => one.slice(1, -1)));
}

/** @returns null when one of them is computed. */
function variablesOf(text: string, environment: string | null): [string, string][] | null {
  const blocks = [...text.matchAll(/(?<![\w-])["']?(env(?:_\w{1,100})?)["']?\s*:\s*(?:\{([^{}]*)\})?/g)];
  const wanted = ["env", ...(environment === null ? [] : [`env_${environment}`])];
  const variables = new Map<string, string>();
  for (const [, , block] of wanted.flatMap((name) => blocks.filter(([, one]) => one === name).slice(0, 1))) {
    const rest = block?.replaceAll(variable, (_all, name: string, double?: string, single?: string, bare?: string) => {
      variables.set(name, double ?? single ?? bare ?? "");
      return "";
    });
    if (rest === undefined || /[^\s,]/.test(rest.replaceAll(unchanged, ""))) return null;
  }
  return [...variables].filter(([name]) => !isAddress.test(name));
}

const variable =
  /(?<=^|[,\n])[ \t]*["']?(\w{1,100})["']?[ \t]*:[ \t]*(?:"([^"\\\n]*)"|'([^'\\\n]*)'|(\d[\d.]*|true|false))[ \t]*(?=[,\r\n]|$)/g;

/** The replica has an address of its own. */
const isAddress = /^(?:PORT|HOST|HOSTNAME)$/;

/** Variables that stay as the deployment has them. */
const unchanged =
  /(?<=^|[,\n])[ \t]*(?:["']?(?:PORT|HOST|HOSTNAME)["']?[ \t]*:[^,\n]*|\.\.\.process\.env\b|["']?(\w{1,100})["']?[ \t]*:[ \t]*process\.env\.\1\b[ \t]*(?=[,\r\n]|$))/g;

/** A program that pm2 finds on the PATH. */
const installers = /^(?:npm|yarn|pnpm|bun)$/;

const ownProgram = /^(?:\.\/)?node_modules\/\.bin\/[\w-]+$/;

/** @returns null for what Node does not run, or what pm2 would first look for on the PATH. */
function managed(
  script: string,
  { args, nodeArgs, interpreter }: { args: string[]; nodeArgs: string[]; interpreter: string | null },
): Managed | null {
  if (installers.test(script)) return { program: script, args, assignments: [] };
  // pm2 lets a shell run a script with blanks.
  if (/\s/.test(script)) {
    const [program = "", ...words] = /^[\w@%+=:,./ -]+$/.test(script) && interpreter === null ? wordsOf(script) : [];
    return program === "" || program.includes("=") ? null : { program, args: [...words, ...args], assignments: [] };
  }
  if (interpreter === "none" || (interpreter === null && ownProgram.test(script) && nodeArgs.length === 0))
    return { program: script, args, assignments: [] };
  if (interpreter !== null && interpreter !== "node")
    return { program: interpreter, args: [...nodeArgs, script, ...args], assignments: [] };
  if (!/\.[cm]?js$|^[^.]*\/[^.]*$|^\.[^.]*$/.test(script)) return null;
  return { program: "node", args: [...nodeArgs, script, ...args], assignments: [] };
}
