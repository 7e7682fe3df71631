import { statSync } from "node:fs";
import path from "node:path";
import type { Environment } from "../context.ts";

/** Writes the commands in a text as the user started this program. */
export type AsStarted = (text: string) => string;

/** Returns whether the program is a package of a project and not on the PATH: then users start it as `npx pierhead`. */
export function isStartedByNpx({ npm_command: npm, PATH }: Environment): boolean {
  return npm === "exec" || (PATH !== undefined && !isOnPath(PATH));
}

/** Returns a function that puts `npx` before the commands in a text. A sentence about `pierhead` names none of the commands. */
export function withNpx(commandNames: readonly string[]): AsStarted {
  const command = new RegExp(`(^|[\\s"'\`(])pierhead (?=(?:${commandNames.join("|")})(?![\\w-]))`, "g");
  return (text) => text.replaceAll(command, "$1npx pierhead ");
}

/** Scripts of npm have the programs of the project on their PATH, but the shell of the user has not. */
const isOnPath = (searchPath: string) =>
  searchPath
    .split(path.delimiter)
    .filter((directory) => directory !== "" && !/\bnode_modules\W\.bin$|\Wnode-gyp-bin$/.test(directory))
    .some((directory) => names.some((name) => isFile(path.join(directory, name))));

/** False also for a directory that the user must not read: a PATH that another user has set contains some. */
function isFile(file: string): boolean {
  try {
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

const names = process.platform === "win32" ? ["pierhead.cmd", "pierhead.exe"] : ["pierhead"];
