import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { openProcessCompute } from "../../../src/compute/process/process-compute.ts";
import { createLogger } from "../../../src/telemetry/log.ts";
import { agents, writeAgent } from "../agents.ts";
import { anySpec, computeConformance } from "../conformance.ts";
import { assertNothingLeft } from "./process-world.ts";

computeConformance("process", async () => {
  const root = await realpath(await mkdtemp(path.join(tmpdir(), "pierhead-compute-")));
  const artifacts = {
    healthy: await writeAgent(path.join(root, "healthy"), agents.healthy),
    broken: await writeAgent(path.join(root, "broken"), agents.broken),
    hanging: await writeAgent(path.join(root, "hanging"), agents.hanging),
  };
  const options = { dataDir: path.join(root, "data"), logger: createLogger("warn"), nodePath: process.execPath };
  return {
    open: () => openProcessCompute(options),
    spec: (kind) => anySpec(artifacts[kind]),
    answers: true,
    async end() {
      await assertNothingLeft(options.dataDir);
      await rm(root, { recursive: true, force: true });
    },
  };
});
