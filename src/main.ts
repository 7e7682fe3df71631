#!/usr/bin/env node
// No static imports: an old Node would fail on newer syntax before it could print this message.
const wanted = { major: 22, minor: 19 };
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);

if (major < wanted.major || (major === wanted.major && minor < wanted.minor)) {
  console.error(
    `Pierhead needs Node ${wanted.major}.${wanted.minor} or newer, this is ${process.versions.node}: install it from https://nodejs.org, or beside the package by "npm install node@24" and use "npx pierhead". In a clone, run "npm start".`,
  );
  process.exitCode = 1;
} else {
  await start();
}

async function start() {
  // `up` reports names that it does not know. Here they have no effect.
  const tuningOff = process.env["PIERHEAD_TUNING_OFF"]?.split(",") ?? [];
  if (process.argv.includes("up", 2) && !tuningOff.includes("memory-limits")) {
    const { restartWithMemoryLimits } = await import("./server/tuning/restart-with-memory-limits.ts");
    restartWithMemoryLimits();
  }
  if (!tuningOff.includes("compile-cache")) {
    const { cacheCompiledCode } = await import("./server/tuning/compile-cache.ts");
    cacheCompiledCode(process.env);
  }
  const { createCli } = await import("./cli/cli.ts");
  const cancelled = new AbortController();
  let firstAt = 0;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => {
      // A signal more than a second after the first one exits at once. npm passes Ctrl-C on, so the same one may arrive twice.
      if (cancelled.signal.aborted && performance.now() - firstAt > 1_000) process.exit(130);
      firstAt ||= performance.now();
      cancelled.abort(new Error(signal));
    });
  }
  const { argv, env, stdout, stderr } = process;
  // `pierhead logs | head` closes the pipe. That is a normal end, not an error.
  stdout.on("error", (error) => process.exit((error as NodeJS.ErrnoException).code === "EPIPE" ? 0 : 1));
  // Progress messages may lose their reader (`pierhead deploy 2>&1 >/dev/null | head`). The command still finishes its work.
  stderr.on("error", () => {});
  const cli = createCli({
    argv: argv.slice(2),
    env,
    cwd: process.cwd(),
    // A getter, because few commands read stdin and accessing it opens it.
    get stdin() {
      return process.stdin;
    },
    stdout,
    stderr,
    signal: cancelled.signal,
    startServer,
    startListener,
    startClusterGateway,
    migrate,
    restore,
  });
  process.exitCode = await cli.run();
}

/** Starts the server. Imports its modules here, because they are large and only `up` needs them. */
async function startServer(environment: Record<string, string | undefined>, options: { stopReplicasOnClose: boolean }) {
  const [{ readConfig }, { startServer }, { createOwnLog }] = await Promise.all([
    import("./server/config.ts"),
    import("./server/start.ts"),
    import("./telemetry/own-log.ts"),
  ]).catch(refuseWithoutServer);
  const config = readConfig(environment);
  const server = await startServer(config, { logger: createOwnLog(config, process) });
  const close = () => server.close({ stopReplicas: options.stopReplicasOnClose });
  return { url: server.url, credentials: server.credentials, close };
}

async function startListener(environment: Record<string, string | undefined>) {
  const [{ readListenerConfig }, { startListenerProcess }, { createOwnLog }] = await Promise.all([
    import("./server/listener-config.ts"),
    import("./server/listener-process.ts"),
    import("./telemetry/own-log.ts"),
  ]).catch(refuseWithoutServer);
  const config = readListenerConfig(environment);
  return startListenerProcess(config, { logger: createOwnLog(config, process) });
}

async function startClusterGateway(environment: Record<string, string | undefined>) {
  const [{ readClusterGatewayConfig }, { startClusterGateway }, { createOwnLog }] = await Promise.all([
    import("./server/cluster-gateway-config.ts"),
    import("./server/cluster-gateway.ts"),
    import("./telemetry/own-log.ts"),
  ]).catch(refuseWithoutServer);
  const config = readClusterGatewayConfig(environment);
  return startClusterGateway(config, { logger: createOwnLog(config, process) });
}

async function migrate(environment: Record<string, string | undefined>) {
  const [{ readConfig }, { migrateDatabase }, { createOwnLog }] = await Promise.all([
    import("./server/config.ts"),
    import("./server/migrate.ts"),
    import("./telemetry/own-log.ts"),
  ]).catch(refuseWithoutServer);
  const config = readConfig(environment);
  return migrateDatabase(config, { logger: createOwnLog(config, process) });
}

async function restore(environment: Record<string, string | undefined>, file: string, signal: AbortSignal) {
  const [{ readConfig }, { restoreBackup }, { createOwnLog }] = await Promise.all([
    import("./server/config.ts"),
    import("./server/restore.ts"),
    import("./telemetry/own-log.ts"),
  ]).catch(refuseWithoutServer);
  const config = readConfig(environment);
  return restoreBackup(config, file, { logger: createOwnLog(config, process), signal });
}

/** The package `pierhead-client` has the command without the modules of the server. A missing package is another failure. */
function refuseWithoutServer(error: NodeJS.ErrnoException): never {
  if (error.code !== "ERR_MODULE_NOT_FOUND" || !error.message.startsWith("Cannot find module")) throw error;
  throw new Error("This is pierhead-client, which has no server. Install the package pierhead instead.", {
    cause: error,
  });
}
