import { accessSync, constants, readFileSync, statSync } from "node:fs";
import path from "node:path";

/**
 * Gate: the first program of every replica. It holds the new process until the server has recorded it, and then becomes
 * the agent server. It is a program of its own, in the session that the replica will have: it waits on descriptor 3 for
 * the start request and replaces itself by the requested program under the same pid.
 *
 * While it waits, the server records pid and start time and moves the process into its cgroup, so no agent code runs
 * unrecorded or unlimited. If the server dies first, the descriptor closes without data and the gate exits, so nothing is
 * left over. Environment and arguments come over the descriptor, so the program gets exactly what was requested.
 *
 * Plain JavaScript, because stripping types when run from source would add 50 ms to each start of a replica.
 */

const request = readRequest();
if (request === undefined) process.exit(0);
try {
  process.chdir(request.cwd);
  const program = findProgram(request.argv[0] ?? "", request.env.PATH ?? "");
  if (process.execve === undefined)
    throw new Error("this Node cannot replace its process (process.execve): use Node 24");
  process.execve(program, request.argv, request.env);
} catch (error) {
  // Same prefix and exit code as in start-failure.ts, which is not imported to keep this program small.
  console.error(`pierhead: cannot start ${request.argv[0]}: ${/** @type {Error} */ (error).message}`);
  process.exit(127);
}

/**
 * Reads the start request.
 * @returns {import("./launch.ts").StartRequest | undefined} undefined when the server died before the request was complete
 */
function readRequest() {
  try {
    return JSON.parse(readFileSync(3, "utf8"));
  } catch {
    return undefined;
  }
}

/**
 * Finds a program as execvp(3) would. Needed because execve aborts this process when the program does not exist.
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
