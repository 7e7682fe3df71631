import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "../../src/client/client.ts";
import { type ServerProcess, startServerProcess } from "../storm/server-process.ts";
import { templateDirectory } from "../support/database-template.ts";
import { eventually } from "../support/eventually.ts";
import { sharedCacheDir } from "../support/server.ts";
import { startReceiver } from "../webhooks/receiver.ts";

const rounds = 4;
const eventsOfRound = 10;

test("delivers all webhook messages in order although the server is killed repeatedly", async () => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-hooks-"));
  await using receiver = await startReceiver(async () => {
    await sleep(20);
    return { status: 200 };
  });
  try {
    let server = await start(dataDir);
    const made = await clientOf(server).createDeployment({
      body: { name: "told", source: "internal_docker", source_config: {}, source_revision_config: {} },
    });
    await clientOf(server).createWebhook({ body: { url: receiver.url, types: ["deployment.changed"] } });
    for (let round = 0; round < rounds; round += 1) {
      for (let i = 0; i < eventsOfRound; i += 1) {
        await clientOf(server).patchDeployment({ deployment_id: made.id, body: { display_name: `${round}-${i}` } });
      }
      await eventually(
        () => receiver.received.length,
        (count) => count > round * eventsOfRound + 2,
        { timeoutMs: 90_000 },
      );
      server.child.kill("SIGKILL");
      await server.ended;
      server = await start(dataDir);
    }
    const { events } = await clientOf(server).listDeploymentEvents({
      deployment_id: made.id,
      types: ["deployment.changed"],
    });
    const firsts = () => [...new Set(receiver.received.map(({ message }) => message.data.id as string))];
    await eventually(firsts, ({ length }) => length === rounds * eventsOfRound, { timeoutMs: 90_000 });
    assert.deepEqual(
      firsts(),
      events.map(({ id }) => id),
    );
    assert.ok(receiver.received.length <= rounds * eventsOfRound + rounds, "each kill may repeat at most one message");
    await server.stop();
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

const clientOf = ({ url, apiKey }: ServerProcess) => createClient({ baseUrl: url, apiKey });

async function start(dataDir: string): Promise<ServerProcess> {
  const server = await startServerProcess(dataDir, {
    PORT: "0",
    PIERHEAD_COMPUTE: "none",
    PIERHEAD_CACHE_DIR: sharedCacheDir,
    PIERHEAD_DATABASE_TEMPLATE_DIR: await templateDirectory(),
  });
  return server as ServerProcess;
}
