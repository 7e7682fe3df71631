import { serverNodeFlags } from "./node-flags.ts";

/**
 * Replaces this process (execve) by the same program with V8 and allocator limits, which are read only at process start.
 * Returns without effect when the process has the limits, and where it cannot be replaced.
 *
 * glibc returns freed memory above 4 MiB (mallopt(3)). By default it keeps up to twice the largest block that was ever freed, in
 * each of its arenas: 90 MB after compiling the embedded database. One arena for all threads saves more: 190 MB with 10,000 settled
 * deployments instead of 208 to 237. Other C libraries ignore both variables.
 * Bench lines: "memory of a control plane" in bench/results.md.
 */
export function restartWithMemoryLimits(): void {
  const { argv, env, execArgv, execPath, platform } = process;
  // A replaced process would lose its channel to a parent, which `node --watch` has.
  if (platform !== "linux" || process.execve === undefined || process.send !== undefined) return;
  if (env["MALLOC_TRIM_THRESHOLD_"] !== undefined) return;
  process.execve(execPath, [execPath, ...serverNodeFlags, ...execArgv, ...argv.slice(1)], {
    MALLOC_ARENA_MAX: "1",
    ...env,
    MALLOC_TRIM_THRESHOLD_: `${4 * 1024 * 1024}`,
  });
}
