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

const secret = "internal-page-of-this-machine";

describe("downloads of a Dockerfile (ADD) and the operator's network", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  const asked: string[] = [];
  const internal = createServer(({ url }, response) => {
    asked.push(url ?? "");
    response.end(secret);
  });
  let at = "";
  before(async () => {
    ({ engine, end } = await engineForTests());
    internal.listen(0, "127.0.0.1");
    await once(internal, "listening");
    at = `127.0.0.1:${(internal.address() as AddressInfo).port}`;
  });
  after(async () => {
    internal.close();
    await end?.();
  });

  const show = "RUN [\"node\", \"-e\", \"console.log(require('fs').readFileSync('/page', 'utf8'))\"]";
  const build = async (lines: string[]) => {
    const target: ImageTarget = {
      ...{ kind: "image", host: engine.host, installationId: randomUUID(), nodeImage, pythonImage: "" },
      ...{ registryAuthFile: null, allowsPrivateRegistries: false, memoryMib: 512, cpuCores: 1 },
    };
    await using place = await scratch();
    const source = await filesSource(path.join(place.dir, "source"), { Dockerfile: lines.join("\n") });
    const { build: running, log } = begin(place.dir, source, { target });
    return { result: await running.result, log: log() };
  };

  test("a Dockerfile must not make the engine download a page of this machine into an image", async () => {
    const u = (text: string) =>
      [...text].map((one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
    const forms = [
      [`ADD http://${at}/plain /page`],
      [`add http://${at}/lower /page`],
      [`ADD --chown=0:0 http://${at}/chown /page`],
      [`ADD ["http://${at}/json", "/page"]`],
      [`ADD ["${u(`http://${at}/escapes`)}", "/page"]`],
      [`ARG page=http://${at}/arg`, "ADD $page /page"],
      [`ENV page=http://${at}/env`, "ADD ${page} /page"],
      [`ENV page=ttp://${at}/rest`, "ADD h${page} /page"],
      ["ENV none=", `ADD "http:\${none}//${at}/empty" /page`],
      [`ADD h\\ttp://${at}/escaped /page`],
      [`ADD "ht"'tp'://${at}/quotes /page`],
      ["ADD http:/\\", `/${at}/lines /page`],
      [`\u0085ADD http://${at}/space /page`],
      [`ADD ["http://${at}/behind", "/page"] none`],
    ];
    for (const form of forms) {
      const { result, log } = await build([`FROM ${nodeImage}`, ...form, show]);
      assert.deepEqual([result.ok, !result.ok && result.reason], [false, "Unsupported"], `${form.join("\n")}\n${log}`);
      assert.ok(!log.includes(secret), log);
    }
    assert.deepEqual(asked, []);
  });

  test("a base image must not make the engine download with a trigger", async () => {
    const changes = `ONBUILD ADD http://${at}/trigger /page`;
    const { Id } = await engine.call<{ Id: string }>("POST", "/containers/create", {
      body: { Image: nodeImage, Cmd: ["x"] },
    });
    const query = { container: Id, repo: "pierhead-test/downloads", tag: "1", changes };
    await engine.call("POST", "/commit", { query, body: {} });
    await engine.call("DELETE", `/containers/${Id}`);
    const { result } = await build(["FROM pierhead-test/downloads:1", show]);
    assert.deepEqual([result.ok, !result.ok && result.reason], [false, "Unsupported"]);
    assert.deepEqual(asked, []);
  });

  test("files of the source are still added", async () => {
    const lines = [
      "ARG kind=Docker",
      "ADD --chown=0:0 Dockerfile /page",
      'ADD ["./Dockerfile", "/second"]',
      "ADD ./${kind}file $HOME/third",
    ];
    const { result, log } = await build([`FROM ${nodeImage}`, "ENV HOME=/root", ...lines, show]);
    assert.ok(result.ok, log);
    assert.match(log, /ADD --chown/);
  });
});
