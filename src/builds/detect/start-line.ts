import path from "node:path";
import { BuildFailure } from "../failure.ts";
import { type Command, parseCommandLine, showCommand } from "./command-line.ts";

/** Variables that a start command may use. No shell expands them; the compute driver does. */
const placeholder = /\$\{(PORT|HOST|PUBLIC_URL)(?::?-[^{}]*)?\}|\$(PORT|HOST|PUBLIC_URL)\b/g;

/**
 * Parses a start command that was written for a shell, in which `$PORT`, `$HOST` and `$PUBLIC_URL` may occur.
 * @returns one program; assignments before it become arguments of env(1), and several programs a call of sh(1).
 * @throws BuildFailure `CommandInvalid`
 */
export function parseStartLine(text: string, { cwd, what }: { cwd: string; what: string }): Command {
  // Private use characters, which no shell interprets, replace the placeholders while the words are split.
  const hidden = text.replaceAll(
    placeholder,
    (_all, braced?: string, bare?: string) => `\uE000${braced ?? bare}\uE001`,
  );
  const commands = parseCommandLine(hidden.replace(/^exec\s+/, ""), { cwd, what });
  const shown = (word: string) => word.replaceAll(/\uE000(\w+)\uE001/g, "$$$1");
  const argvOf = (command: Command) => {
    const variables = Object.entries(command.env).map(([name, value]) => `${name}=${shown(value)}`);
    const argv = command.argv.map(shown);
    return variables.length === 0 ? argv : ["env", ...variables, ...argv];
  };
  const last = commands.at(-1);
  if (last === undefined) {
    throw new BuildFailure("CommandInvalid", `The ${what} '${text.slice(0, 200)}' starts no program.`);
  }
  if (commands.length === 1) return { argv: argvOf(last), cwd: last.cwd, env: {} };
  // The programs before the server run first, in a shell that the server replaces.
  const steps = commands.flatMap((command, at) => {
    const from = commands[at - 1]?.cwd ?? command.cwd;
    const move = from === command.cwd ? [] : [`cd ${showCommand([path.posix.relative(from, command.cwd)])}`];
    return [...move, `${command === last ? "exec " : ""}${showCommand(argvOf(command))}`];
  });
  return { argv: ["sh", "-c", steps.join(" && ")], cwd: commands[0]?.cwd ?? cwd, env: {} };
}
