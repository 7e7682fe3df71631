import { BuildFailure } from "../failure.ts";
import { type Command, parseCommandLine } from "./command-line.ts";

/** Variables that a start command may use. No shell expands them; the compute driver does. */
const placeholder = /\$\{(PORT|HOST|PUBLIC_URL)(?::?-[^}]*)?\}|\$(PORT|HOST|PUBLIC_URL)\b/g;

/**
 * Parses a start command that was written for a shell, in which `$PORT`, `$HOST` and `$PUBLIC_URL` may occur.
 * @returns one program; assignments before it become arguments of env(1).
 * @throws BuildFailure `CommandInvalid`
 */
export function parseStartLine(text: string, { cwd, what }: { cwd: string; what: string }): Command {
  // Private use characters, which no shell interprets, replace the placeholders while the words are split.
  const hidden = text.replaceAll(
    placeholder,
    (_all, braced?: string, bare?: string) => `\uE000${braced ?? bare}\uE001`,
  );
  const commands = parseCommandLine(hidden.replace(/^exec\s+/, ""), { cwd, what });
  const [command] = commands;
  if (command === undefined || commands.length > 1) {
    throw new BuildFailure(
      "CommandInvalid",
      `The ${what} '${text.slice(0, 200)}' runs ${commands.length} programs. Put them into a script file, or write a pierhead.json with build and start.`,
    );
  }
  const shown = (word: string) => word.replaceAll(/\uE000(\w+)\uE001/g, "$$$1");
  const variables = Object.entries(command.env).map(([name, value]) => `${name}=${shown(value)}`);
  const argv = command.argv.map(shown);
  return { argv: variables.length === 0 ? argv : ["env", ...variables, ...argv], cwd: command.cwd, env: {} };
}
