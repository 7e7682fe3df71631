import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { ImageTarget } from "../../src/builds/build.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { begin, filesSource, scratch } from "../builds/fixtures.ts";
import { nodeImage } from "../docker/base-image.ts";
import { dockerSkipped, engineForTests } from "../docker/dockerd.ts";
import { startTestServer } from "../support/server.ts";

const secret = "internal-page-of-this-machine";

describe("image names of users and the operator's network", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  const asked: string[] = [];
  const internal = createServer(({ url }, response) => {
    asked.push(url ?? "");
    response.writeHead(403, { "content-type": "text/plain" }).end(secret);
  });
  let images: string[];
  before(async () => {
    ({ engine, end } = await engineForTests());
    internal.listen(0, "127.0.0.1");
    await once(internal, "listening");
    const { port } = internal.address() as AddressInfo;
    // The engine calls loopback without TLS. In capitals, localhost is a host too.
    images = [`127.0.0.1:${port}/a/b:1`, `localhost:${port}/a/b:1`, `2130706433:${port}/a/b:1`, "LOCALHOST/a/b:1"];
  });
  after(async () => {
    internal.close();
    await end?.();
  });

  test("a deployed image must not make the engine call a service of this machine", async () => {
    const environment = {
      PIERHEAD_COMPUTE: "docker",
      DOCKER_HOST: engine.host,
      PIERHEAD_ALLOW_PRIVATE_NETWORK: "false",
    };
    await using pierhead = await startTestServer(environment);
    for (const image_uri of images) {
      const { id, latest_revision_id } = await pierhead.client.createDeployment({
        body: {
          ...{ name: `bot-${randomUUID()}`, source: "external_docker", source_config: {} },
          source_revision_config: { image_uri },
        },
      });
      const ids = { deployment_id: id, revision_id: latest_revision_id ?? "" };
      const { status, status_message: message } = await pierhead.client.waitForRevision(ids);
      assert.ok(!/DEPLOYED/.test(status) && !String(message).includes(secret), `${image_uri}: ${status} ${message}`);
      assert.match(String(message), /is not a public address/);
    }
    assert.deepEqual(asked, []);
  });

  test("a Dockerfile must not make the engine call a service of this machine", async () => {
    const target: ImageTarget = {
      ...{ kind: "image", host: engine.host, installationId: randomUUID(), nodeImage, pythonImage: "" },
      ...{ registryAuthFile: null, allowsPrivateRegistries: false, memoryMib: 512, cpuCores: 1 },
    };
    for (const image of images.slice(0, 3)) {
      for (const lines of [[`FROM ${image}`], [`FROM ${nodeImage}`, `COPY --from=${image} /a /a`]]) {
        await using place = await scratch();
        const source = await filesSource(path.join(place.dir, "source"), { Dockerfile: lines.join("\n") });
        const { build, log } = begin(place.dir, source, { target });
        const result = await build.result;
        assert.deepEqual([result.ok, !result.ok && result.reason], [false, "Unsupported"], log());
        assert.ok(!log().includes(secret));
      }
    }
    assert.deepEqual(asked, []);
  });
});
