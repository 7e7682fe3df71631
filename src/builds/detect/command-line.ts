import path from "node:path";
import { BuildFailure } from "../failure.ts";

/** One program to run, as an argument array. */
export interface Command {
  argv: string[];
  /** Arguments for the log, when the real ones contain many paths of the build. */
  shown?: string[];
  /** Relative to the root of the source. */
  cwd: string;
  /** Added to the environment of the build. */
  env: Record<string, string>;
}

/**
 * Parses an install or build command that a user wrote for a shell, without using a shell: words, single and double
 * quotes, leading `NAME=value`, `&&` between commands, and `cd <directory>`. Other shell syntax is rejected instead of
 * passed on literally, so that a command never means something different here.
 *
 * @param cwd directory in which the first command starts, relative to the root of the source.
 * @throws BuildFailure `CommandInvalid`
 */
export function parseCommandLine(text: string, { cwd, what }: { cwd: string; what: string }): Command[] {
  const commands: Command[] = [];
  let directory = cwd;
  for (const words of splitWords(text, what)) {
    const env: Record<string, string> = {};
    let first = 0;
    for (; first < words.length; first++) {
      const assignment = /^([A-Za-z_]\w*)=(.*)$/s.exec(words[first] ?? "");
      if (assignment === null) break;
      env[assignment[1] as string] = assignment[2] as string;
    }
    const argv = words.slice(first);
    if (argv.length === 0) throw invalid(what, text, "there is no program between two `&&`");
    if (argv[0] === "cd") directory = changeDirectory(directory, argv, { text, what });
    else commands.push({ argv, cwd: directory, env });
  }
  return commands;
}

/** Formats a command as one line for the log, as a person would type it. */
export function showCommand(argv: string[]): string {
  return argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

function changeDirectory(from: string, argv: string[], command: { text: string; what: string }): string {
  const [, target = "", ...more] = argv;
  if (target === "" || more.length > 0) throw invalid(command.what, command.text, "`cd` takes one directory");
  const directory = path.posix.normalize(path.posix.join(from, target));
  if (path.posix.isAbsolute(target) || directory === ".." || directory.startsWith("../")) {
    throw invalid(command.what, command.text, `\`cd ${target}\` leaves the source`);
  }
  return directory;
}

/** Characters that only a shell interprets outside quotes, either anywhere or at the start of a word. */
const shellOnly = /[|;<>$`\\*?[\]()]/;
const shellOnlyFirst = /^([~#]|[{}!]$)/;

function splitWords(text: string, what: string): string[][] {
  if (/[^\P{Cc}\t]/u.test(text)) throw invalid(what, text, "it contains control characters or line breaks");
  const commands: string[][] = [[]];
  // A word is a run of quoted and bare pieces; `&&` and blanks separate words.
  const token = /\s+|&&|((?:'[^']*'|"[^"]*"|[^\s&'"])+)|(.)/gy;
  for (const [whole, word, stray] of text.matchAll(token)) {
    if (stray === "&") throw invalid(what, text, "a single `&` would run it in the background");
    if (stray !== undefined) throw invalid(what, text, "a quote is not closed");
    if (word !== undefined) commands.at(-1)?.push(unquote(word, text, what));
    else if (whole === "&&") commands.push([]);
  }
  if (commands.some((words) => words.length === 0)) {
    throw invalid(what, text, text.trim() === "" ? "it is empty" : "there is no program between two `&&`");
  }
  return commands;
}

function unquote(word: string, text: string, what: string): string {
  const first = shellOnlyFirst.exec(word);
  if (first !== null) throw needsShell(first[0], text, what);
  return word.replace(/'([^']*)'|"([^"]*)"|([^'"]+)/g, (_piece, single?: string, double?: string, bare?: string) => {
    const found = bare === undefined ? /[$`\\]/.exec(double ?? "") : shellOnly.exec(bare);
    if (found !== null) throw needsShell(found[0], text, what);
    return single ?? double ?? bare ?? "";
  });
}

function needsShell(character: string, text: string, what: string): BuildFailure {
  return invalid(what, text, `\`${character}\` needs a shell. Put the command into a package.json script and run that`);
}

function invalid(what: string, text: string, why: string): BuildFailure {
  return new BuildFailure("CommandInvalid", `The ${what} '${text.slice(0, 200)}' cannot be run: ${why}.`);
}
