import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { test } from "node:test";
import type { Client } from "../../src/client/client.ts";
import { outboundCallsMax } from "../../src/domain/limits.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startWithTwoWorkspaces } from "./two-workspaces.ts";

const timeoutMs = 60_000;

const deploy = (api: Client, repoUrl: string, ref: string) =>
  api.createDeployment({
    body: {
      ...{ name: `agent-${randomUUID()}`, source: "github" },
      source_config: { repo_url: repoUrl, build_on_push: false, deployment_type: "dev" },
      source_revision_config: { repo_ref: ref, langgraph_config_path: "pierhead.json" },
    },
  });

test("code hosts of one workspace that never answer must not keep other workspaces from building", async () => {
  const open = new Set<Socket>();
  let mostOpen = 0;
  const silent = createServer((socket) => {
    open.add(socket);
    mostOpen = Math.max(mostOpen, open.size);
    socket.on("error", () => {}).on("close", () => open.delete(socket));
    socket.resume();
  });
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  await using repository = await createAgentRepository();
  await using world = await startWithTwoWorkspaces({ PIERHEAD_COMPUTE: "process" });
  const { attacker, victim } = world;
  const { port } = silent.address() as AddressInfo;
  try {
    for (let count = 0; count < outboundCallsMax + 4; count += 1) {
      await deploy(attacker.api, `http://127.0.0.1:${port}/acme/bot-${count}`, "main");
    }
    await eventually(
      () => open.size,
      (size) => size >= outboundCallsMax / 2,
      { timeoutMs, what: "the calls that hang" },
    );
    const { id, latest_revision_id: revisionId } = await deploy(victim.api, repository.url, "main");
    const ids = { deployment_id: id, revision_id: revisionId as string };
    const { status, status_message: message } = await victim.api.waitForRevision(ids, { timeoutMs });
    assert.equal(status, "DEPLOYED", message ?? "");
    assert.equal(mostOpen, outboundCallsMax / 2, "the workspace holds its share of the calls");
  } finally {
    silent.close();
    for (const socket of open) socket.destroy();
  }
});
