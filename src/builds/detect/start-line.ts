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
  const steps = parseStartSteps(text, { cwd, what });
  const from = steps[0]?.cwd ?? cwd;
  return { argv: joinSteps(steps, from), cwd: from, env: {} };
}

/** Parses such a command into its programs. The last one is the server. Assignments before a program become arguments of env(1). */
export function parseStartSteps(text: string, { cwd, what }: { cwd: string; what: string }): Step[] {
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
  if (commands.length === 0) {
    throw new BuildFailure("CommandInvalid", `The ${what} '${text.slice(0, 200)}' starts no program.`);
  }
  return commands.map((command) => ({ argv: argvOf(command), cwd: command.cwd }));
}

export type Step = Pick<Command, "argv" | "cwd">;

/**
 * Returns one program that runs all: the programs before the server run first, in a shell that the server replaces.
 * @param from directory in which it starts.
 */
export function joinSteps(steps: readonly Step[], from: string): string[] {
  const [first] = steps;
  if (first !== undefined && steps.length === 1 && first.cwd === from) return first.argv;
  const lines = steps.flatMap((step, at) => {
    const before = steps[at - 1]?.cwd ?? from;
    const move = before === step.cwd ? [] : [`cd ${showCommand([path.posix.relative(before, step.cwd)])}`];
    return [...move, `${at === steps.length - 1 ? "exec " : ""}${showCommand(step.argv)}`];
  });
  return ["sh", "-c", lines.join(" && ")];
}
