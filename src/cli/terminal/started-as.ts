import { statSync } from "node:fs";
import path from "node:path";
import type { Environment } from "../context.ts";

/** First words of a command, as messages name it. A test compares them with the command tables. */
export const commandNames = [
  ...[
    "admin",
    "alerts",
    "api",
    "apply",
    "auth",
    "backup",
    "cancel",
    "change",
    "completion",
    "context",
    "database",
    "diff",
  ],
  ...["delete", "deploy", "detect", "dev", "doctor", "env", "events", "exec", "groups", "init", "integrations"],
  ...["invoke", "list", "listener", "login", "logout", "logs", "mcp", "migrate", "move", "open", "plan"],
  ...[
    "port-forward",
    "ps",
    "pull",
    "push",
    "pushes",
    "redeploy",
    "restart",
    "restore",
    "retry",
    "rollback",
    "runs",
    "scale",
  ],
  ...["schema", "shell", "status", "threads", "up", "version", "webhooks", "whoami", "why"],
];

const command = new RegExp(`(^|[\\s"'\`(])pierhead (?=(?:${commandNames.join("|")})(?![\\w-]))`, "g");

/**
 * Returns a function that writes commands in a text as this program was started: `npx pierhead deploy` for a package that is
 * installed in a project and whose program is not on the PATH.
 */
export function commandsAsStarted({ npm_command: npm, PATH }: Environment): (text: string) => string {
  let isBare: boolean | undefined;
  return (text) => {
    if (!text.includes("pierhead ")) return text;
    isBare ??= npm !== "exec" && (PATH === undefined || isOnPath(PATH));
    return isBare ? text : text.replaceAll(command, "$1npx pierhead ");
  };
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
