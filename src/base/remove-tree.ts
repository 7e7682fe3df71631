import { spawn } from "node:child_process";
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { childEnvironment } from "./child-environment.ts";

/**
 * Removes a directory whose files strangers chose. rm(1) does it beside this process, because removing 200,000 files of one directory
 * occupies the event loop for a second, and it removes paths that are too long for a system call.
 * @throws Error as of `rm` when something is left.
 */
export async function removeTree(directory: string): Promise<void> {
  const program = spawn("rm", ["-rf", "--", directory], { stdio: "ignore", env: childEnvironment() });
  const isRemoved = await once(program, "close").then(
    ([exitCode]) => exitCode === 0,
    () => false,
  );
  // Without the program, or to name what is left.
  if (!isRemoved) await rm(directory, { recursive: true, force: true, maxRetries: 3 });
}
