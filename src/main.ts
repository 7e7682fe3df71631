#!/usr/bin/env node
// Nothing is imported before the version is known: an old Node would fail on syntax instead of on this line.
const wanted = { major: 22, minor: 19 };
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);

if (major < wanted.major || (major === wanted.major && minor < wanted.minor)) {
  console.error(
    `Pierhead needs Node ${wanted.major}.${wanted.minor} or newer, this is ${process.versions.node}: install it from https://nodejs.org, or run "npm start" in a clone.`,
  );
  process.exitCode = 1;
} else {
  await start();
}

async function start() {
  if (process.argv.includes("up", 2)) await limitMemory();
  await keepCompiledCode();
  const { createCli } = await import("./cli/cli.ts");
  const cancelled = new AbortController();
  let firstAt = 0;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => {
      // A second one later does not wait for anything; at once it is the same Ctrl-C, which npm passes on too.
      if (cancelled.signal.aborted && performance.now() - firstAt > 1_000) process.exit(130);
      firstAt ||= performance.now();
      cancelled.abort(new Error(signal));
    });
  }
  const { argv, env, stdout, stderr } = process;
  // `pierhead logs | head` closes the pipe: that is an end, not an error.
  stdout.on("error", (error) => process.exit((error as NodeJS.ErrnoException).code === "EPIPE" ? 0 : 1));
  // Nobody reads the talk any more (`pierhead deploy 2>&1 >/dev/null | head`): no reason to leave what was begun half done.
  stderr.on("error", () => {});
  const cli = createCli({
    argv: argv.slice(2),
    env,
    cwd: process.cwd(),
    // Opened when it is read, which few commands do.
    get stdin() {
      return process.stdin;
    },
    stdout,
    stderr,
    signal: cancelled.signal,
    startServer,
    startListener,
    migrate,
    restore,
  });
  process.exitCode = await cli.run();
}

/**
 * V8 is bounded by flags. Freed memory goes back to the machine from 4 MiB on: left alone, glibc keeps up to twice the largest block
 * that was ever freed, in each of its arenas, which is 90 MB of what compiling the embedded database takes. One arena for all
 * threads keeps less again: 190 MB of 10,000 settled deployments, where it was 208 to 237. All are read before any program runs
 * (mallopt(3)), so this one becomes itself once more, as the same process; other libraries do not know the last two.
 */
async function limitMemory() {
  const { argv, env, execArgv, execPath, platform } = process;
  // A channel to a parent would be lost on the way; `node --watch` has one.
  if (platform !== "linux" || process.execve === undefined || process.send !== undefined) return;
  if (env["MALLOC_TRIM_THRESHOLD_"] !== undefined) return;
  const { serverNodeFlags } = await import("./server/tuning/node-flags.ts");
  process.execve(execPath, [execPath, ...serverNodeFlags, ...execArgv, ...argv.slice(1)], {
    MALLOC_ARENA_MAX: "1",
    ...env,
    MALLOC_TRIM_THRESHOLD_: `${4 * 1024 * 1024}`,
  });
}

/**
 * Commands end a quarter sooner. Where this user alone writes: whoever could put code there would be
 * obeyed. Who has no home, or one that cannot be written, goes on without it.
 */
async function keepCompiledCode() {
  const { HOME, XDG_CACHE_HOME } = process.env;
  const caches = XDG_CACHE_HOME || (HOME && `${HOME}/.cache`);
  if (!caches) return;
  // An import would read all that the module exports.
  const { enableCompileCache } = process.getBuiltinModule("node:module");
  const { mkdirSync } = process.getBuiltinModule("node:fs");
  // One by one: below a directory that takes none and does not say so, as /proc, Node would try to make them all for ever.
  for (const directory of [caches, `${caches}/pierhead`]) {
    try {
      mkdirSync(directory, { mode: 0o700 });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") return;
    }
  }
  enableCompileCache(`${caches}/pierhead/compiled`);
}

/** The server is heavy: only `up` loads it. */
async function startServer(environment: Record<string, string | undefined>, options: { stopReplicasOnClose: boolean }) {
  const [{ readConfig }, { startServer }, { createLogger }] = await Promise.all([
    import("./server/config.ts"),
    import("./server/start.ts"),
    import("./telemetry/log.ts"),
  ]);
  const config = readConfig(environment);
  const server = await startServer(config, { logger: createLogger(config.logLevel) });
  const close = () => server.close({ stopReplicas: options.stopReplicasOnClose });
  return { url: server.url, credentials: server.credentials, close };
}

async function startListener(environment: Record<string, string | undefined>) {
  const [{ readListenerConfig }, { startListenerProcess }, { createLogger }] = await Promise.all([
    import("./server/listener-config.ts"),
    import("./server/listener-process.ts"),
    import("./telemetry/log.ts"),
  ]);
  const config = readListenerConfig(environment);
  return startListenerProcess(config, { logger: createLogger(config.logLevel) });
}

async function migrate(environment: Record<string, string | undefined>) {
  const [{ readConfig }, { migrateDatabase }, { createLogger }] = await Promise.all([
    import("./server/config.ts"),
    import("./server/migrate.ts"),
    import("./telemetry/log.ts"),
  ]);
  const config = readConfig(environment);
  return migrateDatabase(config, { logger: createLogger(config.logLevel) });
}

async function restore(environment: Record<string, string | undefined>, file: string, signal: AbortSignal) {
  const [{ readConfig }, { restoreBackup }, { createLogger }] = await Promise.all([
    import("./server/config.ts"),
    import("./server/restore.ts"),
    import("./telemetry/log.ts"),
  ]);
  const config = readConfig(environment);
  return restoreBackup(config, file, { logger: createLogger(config.logLevel), signal });
}
