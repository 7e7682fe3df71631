import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import path from "node:path";

/**
 * Runs the program in its arguments while an image is built, and then removes the caches that package managers keep for
 * their next run. They would only enlarge the image, because each instruction of a Dockerfile is a permanent layer.
 */
const [program = "", ...args] = process.argv.slice(2);
const { status, error } = spawnSync(program, args, { stdio: "inherit" });
if (error !== undefined) console.error(`pierhead: ${program} cannot be run: ${error.message}`);
const caches = [".npm", ".cache", ".yarn", ".bun/install/cache", ".local/share/pnpm"];
for (const cache of caches) rmSync(path.join(homedir(), cache), { recursive: true, force: true });
for (const name of readdirSync(tmpdir())) rmSync(path.join(tmpdir(), name), { recursive: true, force: true });
// 128 + SIGKILL: the code that a shell returns for a killed program.
process.exit(error === undefined ? (status ?? 137) : 127);
