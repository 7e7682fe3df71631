import type { ReplicaSpec } from "../../../src/compute/compute.ts";
import { openProcessCompute } from "../../../src/compute/process/process-compute.ts";
import { createLogger } from "../../../src/telemetry/log.ts";

/** A server with one replica, for tests that kill it: `node server-process.ts <data dir> <spec as JSON>`. */
const [dataDir = "", spec = "{}"] = process.argv.slice(2);
const compute = await openProcessCompute({ dataDir, logger: createLogger("error"), nodePath: process.execPath });
await compute.ensure(JSON.parse(spec) as ReplicaSpec, AbortSignal.timeout(60_000));
console.log("ensured");
setInterval(() => {}, 1_000);
