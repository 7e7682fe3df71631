import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { ImageTarget } from "../../src/builds/build.ts";
import { downloadAdded, downloadsDir } from "../../src/builds/image/added-downloads.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import type { OutboundPolicy } from "../../src/integrations/outbound-fetch.ts";
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
  const targetOf = (): ImageTarget => ({
    ...{ kind: "image", host: engine.host, installationId: randomUUID(), nodeImage, pythonImage: "" },
    ...{ registryAuthFile: null, allowsPrivateRegistries: false, memoryMib: 512, cpuCores: 1 },
  });
  const build = async (lines: string[]) => {
    await using place = await scratch();
    const source = await filesSource(path.join(place.dir, "source"), { Dockerfile: lines.join("\n") });
    const { build: running, log } = begin(place.dir, source, { target: targetOf() });
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

  test("a file that a Dockerfile adds by URL is downloaded from checked addresses only, and reaches the image as the engine adds it", async () => {
    const pages = createServer(({ url }, response) => {
      if (url === "/moved/install.sh") response.writeHead(302, { location: "/install.sh" }).end();
      else response.end("echo installed\n");
    });
    pages.listen(0, "127.0.0.1");
    await once(pages, "listening");
    const address = `http://127.0.0.1:${(pages.address() as AddressInfo).port}/moved/install.sh`;
    const text = [
      `FROM ${nodeImage}`,
      `ADD ${address} /install.sh`,
      `ADD --chown=1000:1000 ${address} /opt/`,
      `RUN ["node", "-e", "for (const f of ['/install.sh', '/opt/install.sh']) { const s = require('fs').statSync(f); console.log(f, s.size, s.uid, (s.mode & 511).toString(8)); }"]`,
    ].join("\n");
    await using place = await scratch();
    const download = async (name: string, policy?: OutboundPolicy) => {
      const sourceDir = path.join(place.dir, name);
      await mkdir(sourceDir);
      const context = { sourceDir, signal: AbortSignal.timeout(60_000), log: { say: () => {} } };
      const Dockerfile = await downloadAdded(text, context as never, policy);
      const script = await readFile(path.join(sourceDir, downloadsDir, "2/install.sh"), "utf8");
      return { Dockerfile, script, sourceDir };
    };
    await assert.rejects(download("refused"), /ADD .* 127\.0\.0\.1/, "an address of this machine");
    const policy = { allowPrivateNetwork: true, plainHttp: "anywhere", timeoutMs: 10_000, bytesMax: 1_000 } as const;
    const { Dockerfile, script, sourceDir } = await download("downloaded", policy);
    pages.close();
    assert.equal(script, "echo installed\n");
    assert.doesNotMatch(Dockerfile, /http/);
    await writeFile(path.join(sourceDir, "Dockerfile"), Dockerfile);
    await writeFile(path.join(sourceDir, ".dockerignore"), "*\n");
    const { build: running, log } = begin(
      place.dir,
      { kind: "template", directory: sourceDir, digest: "downloaded" },
      { target: targetOf() },
    );
    assert.ok((await running.result).ok, log());
    assert.match(log(), /\/install\.sh 15 0 600/);
    assert.match(log(), /\/opt\/install\.sh 15 1000 600/);
  });

  test("a directory of the source must not lead a download out of it", async () => {
    await using place = await scratch();
    const sourceDir = path.join(place.dir, "source");
    await mkdir(sourceDir);
    await symlink(place.dir, path.join(sourceDir, downloadsDir));
    const context = { sourceDir, signal: AbortSignal.timeout(60_000), log: { say: () => {} } };
    const policy = { allowPrivateNetwork: true, plainHttp: "anywhere", timeoutMs: 10_000, bytesMax: 1_000 } as const;
    await assert.rejects(downloadAdded(`FROM x\nADD http://${at}/page /page`, context as never, policy), /Rename it/);
    assert.deepEqual(await readdir(place.dir), ["source"]);
    asked.length = 0;
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
