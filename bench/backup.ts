import { createWriteStream } from "node:fs";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createClient } from "../src/client/client.ts";
import { readConfig } from "../src/server/config.ts";
import { restoreBackup } from "../src/server/restore.ts";
import { createLogger } from "../src/telemetry/log.ts";
import type { BenchRun, DatabaseKind } from "./installation.ts";
import { type BenchLine, benchLine } from "./line.ts";
import { createWithoutHttp } from "./requests.ts";

const counts = { small: 500, full: 10_000 } as const;
const createsAtOnce = 16;

/** Measures a backup of a running server and its restore into an embedded database: G15. */
export async function backupBench(run: BenchRun): Promise<BenchLine[]> {
  const lines: BenchLine[] = [];
  for (const kind of run.kinds) lines.push(await backupLine(run, kind));
  return lines;
}

async function backupLine(run: BenchRun, kind: DatabaseKind): Promise<BenchLine> {
  const count = counts[run.size];
  await using installation = await run.install(kind);
  const { workspaceId, listenerId, dataDir, adminKey } = installation;
  const store = await installation.open();
  for (let made = 0; made < count; made += createsAtOnce) {
    const some = Math.min(createsAtOnce, count - made);
    const owner = { workspaceId, listenerId };
    await Promise.all(Array.from({ length: some }, () => createWithoutHttp(store.db, store.sealer, owner)));
  }
  await store.close();
  const target = await mkdtemp(path.join(tmpdir(), "pierhead-bench-restored-"));
  try {
    const file = path.join(target, "backup.tar.gz");
    const server = await installation.start("api");
    const beganAt = performance.now();
    const archive = await createClient({ baseUrl: server.url, apiKey: adminKey }).downloadBackup();
    await pipeline(Readable.fromWeb(archive), createWriteStream(file));
    const backedUpAt = performance.now();
    await server.stop();
    await cp(path.join(dataDir, "master.key"), path.join(target, "master.key"));
    const config = readConfig({
      PIERHEAD_DATA_DIR: target,
      PIERHEAD_DATABASE_TEMPLATE_DIR: "node_modules/.cache/pierhead",
    });
    const restoreAt = performance.now();
    const { deployments } = await restoreBackup(config, file, {
      logger: createLogger("warn"),
      signal: new AbortController().signal,
    });
    if (deployments !== count) throw new Error(`${deployments} of ${count} deployments were restored`);
    const ours = (backedUpAt - beganAt + (performance.now() - restoreAt)) / 1_000;
    return benchLine({
      goal: "G15",
      name: `backup of ${count} deployments on ${kind} and restore into an embedded database`,
      floor: null,
      ours,
      unit: "s",
      target: { oursMax: 30 },
    });
  } finally {
    await rm(target, { recursive: true, force: true });
  }
}
