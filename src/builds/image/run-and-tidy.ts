import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import path from "node:path";

/**
 * A program of images while they are made: runs what its arguments name, and then removes what package managers keep for
 * a next time. There is none: what runs in one instruction of a Dockerfile stays in the image for ever.
 */
const [program = "", ...args] = process.argv.slice(2);
const { status, error } = spawnSync(program, args, { stdio: "inherit" });
if (error !== undefined) console.error(`pierhead: ${program} cannot be run: ${error.message}`);
const caches = [".npm", ".cache", ".yarn", ".bun/install/cache", ".local/share/pnpm"];
for (const cache of caches) rmSync(path.join(homedir(), cache), { recursive: true, force: true });
for (const name of readdirSync(tmpdir())) rmSync(path.join(tmpdir(), name), { recursive: true, force: true });
// 128 + SIGKILL: what a shell would say of a program that was killed.
process.exit(error === undefined ? (status ?? 137) : 127);
