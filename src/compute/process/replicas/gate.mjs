import { accessSync, constants, readFileSync, statSync } from "node:fs";
import path from "node:path";

/**
 * First program of every replica: its own main, in the session that the replica will have. It waits on descriptor 3
 * for what to start and then becomes that program, under the same pid.
 *
 * While it waits, the server writes down pid and start time and puts the process into its cgroup, so no code of an
 * agent runs unrecorded or unlimited. When the server dies first, the descriptor ends without a word, and so do we:
 * nothing is left over. Environment and arguments come over the descriptor, so that they begin exactly as given.
 *
 * Plain JavaScript: run from the sources, taking types away would cost each start of a replica 50 ms.
 */

const request = readRequest();
if (request === undefined) process.exit(0);
try {
  process.chdir(request.cwd);
  const program = findProgram(request.argv[0] ?? "", request.env.PATH ?? "");
  if (process.execve === undefined) throw new Error("this system cannot replace a process by a program");
  process.execve(program, request.argv, request.env);
} catch (error) {
  // Prefix and exit code as in start-failure.ts, which this program does not import: it has to be light.
  console.error(`pierhead: cannot start ${request.argv[0]}: ${/** @type {Error} */ (error).message}`);
  process.exit(127);
}

/**
 * @returns {import("./launch.ts").StartRequest | undefined} undefined when the server has died before it had said everything: what is
 * missing cannot be started
 */
function readRequest() {
  try {
    return JSON.parse(readFileSync(3, "utf8"));
  } catch {
    return undefined;
  }
}

/**
 * execve aborts us when the program is not there, so it is looked up as execvp(3) would.
 * @param {string} name
 * @param {string} searchPath
 */
function findProgram(name, searchPath) {
  const directories = name.includes("/") ? [""] : searchPath.split(path.delimiter);
  for (const directory of directories) {
    const file = path.resolve(directory, name);
    if (isProgram(file)) return file;
  }
  throw new Error(name.includes("/") ? "no such program" : "no such program in PATH");
}

/** @param {string} file */
function isProgram(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
