import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";

const timeoutMs = 120_000;

test("uploads and builds must not take the last space of the database's disk", async () => {
  await using repository = await createAgentRepository();
  // More than any disk has, as if this one were almost full.
  const low = { PIERHEAD_COMPUTE: "process", PIERHEAD_DISK_RESERVE_MIB: "1000000000" };
  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "process" });
  const upload = {
    ...{ name: randomUUID(), source: "internal_source" as const },
    ...{ source_config: {}, source_revision_config: {} },
  };
  const { id: uploaded } = await pierhead.client.createDeployment({ body: upload });
  const { upload_url: before } = await pierhead.client.createUploadUrl({ deployment_id: uploaded });
  await pierhead.restart(low);

  const body = gzipSync(randomBytes(1_000));
  const url = new URL(before);
  const put = await fetch(new URL(url.pathname + url.search, pierhead.url), { method: "PUT", body });
  assert.equal(put.status, 503);
  assert.match(await put.text(), /disk of the server is full/);
  const { id, latest_revision_id: revisionId } = await pierhead.client.createDeployment({
    body: {
      ...{ name: randomUUID(), source: "github" as const },
      source_config: { repo_url: repository.url, build_on_push: false, deployment_type: "dev" },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  await eventually(
    async () => (await pierhead.client.debugDeployment({ deployment_id: id })).outcomes[0]?.because ?? "",
    (because) => /^the disk of the server is almost full: builds wait/.test(because),
    { timeoutMs, what: "the wait for space" },
  );

  await pierhead.restart({ PIERHEAD_DISK_RESERVE_MIB: "0" });
  const { status } = await pierhead.client.waitForRevision(
    { deployment_id: id, revision_id: revisionId as string },
    { timeoutMs },
  );
  assert.equal(status, "DEPLOYED");
});
