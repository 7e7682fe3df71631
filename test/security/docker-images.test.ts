import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { after, before, describe, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { nodeImage } from "../docker/base-image.ts";
import { dockerSkipped, engineForTests } from "../docker/dockerd.ts";
import { startTestServer } from "../support/server.ts";

describe("images that users bring", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
  });
  after(() => end?.());

  test("an image with megabytes of labels must not occupy the server", async () => {
    const { Id } = await engine.call<{ Id: string }>("POST", "/containers/create", {
      body: { Image: nodeImage, Cmd: ["true"] },
    });
    const label = '"'.repeat(1024 * 1024);
    const Labels = Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`label-${at}`, label]));
    await engine.call("POST", "/commit", {
      query: { container: Id, repo: "pierhead-test/labels", tag: "1" },
      body: { Labels },
      timeoutMs: 120_000,
    });
    await engine.call("DELETE", `/containers/${Id}`);
    const environment = { PIERHEAD_COMPUTE: "docker", DOCKER_HOST: engine.host };
    await using pierhead = await startTestServer(environment);
    const delay = monitorEventLoopDelay({ resolution: 10 });
    delay.enable();
    const { id, latest_revision_id } = await pierhead.client.createDeployment({
      body: {
        ...{ name: `bot-${randomUUID()}`, source: "external_docker", source_config: {} },
        source_revision_config: { image_uri: "pierhead-test/labels:1" },
      },
    });
    const ids = { deployment_id: id, revision_id: latest_revision_id ?? "" };
    const { status, status_message: message } = await pierhead.client.waitForRevision(ids);
    assert.match(`${status} ${message}`, /FAILED .*more than 512 KiB of labels/);
    assert.ok(delay.max < 1e9, `${Math.round(delay.max / 1e6)} ms`);
    const listed = await engine.call<{ RepoTags: string[] }[]>("GET", "/images/json");
    assert.ok(
      listed.some(({ RepoTags }) => RepoTags.includes("pierhead-test/labels:1")),
      "the operator's image is gone",
    );
  });
});
