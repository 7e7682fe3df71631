import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { readConfig } from "../../src/server/config.ts";
import { startServer } from "../../src/server/start.ts";
import { createLogger } from "../../src/telemetry/log.ts";

const parent = await mkdtemp(path.join(tmpdir(), "pierhead-start-"));
after(() => rm(parent, { recursive: true, force: true }));

test("names a missing templates directory at startup and leaves nothing behind", async () => {
  const [dataDir, templatesDir] = [path.join(parent, "data"), path.join(parent, "nowhere")];
  const config = readConfig({ PIERHEAD_DATA_DIR: dataDir, PIERHEAD_TEMPLATES_DIR: templatesDir, PORT: "0" });
  await assert.rejects(
    startServer(config, { logger: createLogger("silent") }),
    ({ message }: Error) =>
      message.startsWith("PIERHEAD_TEMPLATES_DIR must be a directory") && message.includes("nowhere"),
  );
  assert.deepEqual(await readdir(parent), []);
});
