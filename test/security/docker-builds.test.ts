import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { BuildRequest, ImageTarget } from "../../src/builds/build.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { processesMax } from "../../src/compute/docker/replicas/container.ts";
import { begin, filesSource, scratch } from "../builds/fixtures.ts";
import { nodeImage } from "../docker/base-image.ts";
import { dockerSkipped, engineForTests } from "../docker/dockerd.ts";
import { eventually } from "../support/eventually.ts";

describe("attacks from the builds of a workspace on a container engine", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  let target: ImageTarget;
  before(async () => {
    ({ engine, end } = await engineForTests());
    target = {
      kind: "image",
      host: engine.host,
      installationId: randomUUID(),
      nodeImage,
      pythonImage: "",
      registryAuthFile: null,
      memoryMib: 512,
      cpuCores: 1,
    };
  });
  after(() => end?.());

  /** Starts a build of a Dockerfile for a workspace. */
  const start = async (
    dir: string,
    tenantId: string,
    dockerfile: string[],
    more: Record<string, string> = {},
    limits: Partial<BuildRequest> = {},
  ) => {
    const files = { Dockerfile: dockerfile.join("\n"), ...more };
    const changes: Partial<BuildRequest> = { target, tenantId, ...limits };
    return begin(dir, await filesSource(path.join(dir, `source-${randomUUID()}`), files), changes);
  };
  /** The image that it is based on has 150 MB. */
  const limited = { diskBytesMax: 300 * 1024 * 1024 };
  const build = async (
    tenantId: string,
    dockerfile: string[],
    more: Record<string, string> = {},
    limits: Partial<BuildRequest> = {},
  ) => {
    await using workdir = await scratch();
    const { build: running, log } = await start(workdir.dir, tenantId, dockerfile, more, limits);
    return { result: await running.result, log: log() };
  };
  const networks = async () => {
    const filters = { label: [`pierhead.dev/installation=${target.installationId}`] };
    return (await engine.call<{ Name: string }[]>("GET", "/networks", { query: { filters } })).map(({ Name }) => Name);
  };

  test("a build does not reach the build of another workspace, or a listener on the host's loopback", async () => {
    await using workdir = await scratch();
    const onLoopback = createServer((_, response) => response.end());
    onLoopback.listen(0, "127.0.0.1");
    await once(onLoopback, "listening");
    const { port } = onLoopback.address() as AddressInfo;
    const listening = await start(
      workdir.dir,
      randomUUID(),
      [`FROM ${nodeImage}`, "COPY listen.js /", runNode("/listen.js")],
      {
        "listen.js": `
        require("http").createServer((_, response) => response.end()).listen(8000, "0.0.0.0", () =>
          console.log("address " + require("os").networkInterfaces().eth0[0].address));`,
      },
    );
    const said = await eventually(
      () => /^address (\S+)$/m.exec(listening.log())?.[1],
      (address) => address !== undefined,
      { what: "the address of the other build" },
    );
    const { result, log } = await build(randomUUID(), [`FROM ${nodeImage}`, "COPY reach.js /", runNode("/reach.js")], {
      "reach.js": reachProgram([`http://${said}:8000/`, `http://172.17.0.1:${port}/`, `http://127.0.0.1:${port}/`]),
    });
    await listening.build.cancel();
    onLoopback.close();
    assert.ok(result.ok, JSON.stringify(result));
    assert.match(log, /^reached nothing$/m);
    assert.deepEqual(await networks(), [], "no network is left of a finished and of a cancelled build");
  });

  test("a fork bomb in a build does not get more processes than an agent", async () => {
    const bomb = `
      const child = require("child_process").spawn(
        "/bin/sh", ["-c", "i=0; while [ $i -lt 3000 ]; do ( read x <&3 ) & i=$((i+1)); done"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
      child.on("exit", () => {
        console.log("processes " + require("fs").readdirSync("/proc").filter((name) => /^\\d+$/.test(name)).length);
        process.exit();
      });`;
    target.memoryMib = 2_048;
    const { result, log } = await build(randomUUID(), [`FROM ${nodeImage}`, "COPY bomb.js /", runNode("/bomb.js")], {
      "bomb.js": bomb,
    });
    assert.ok(result.ok, JSON.stringify(result));
    const count = Number(/^processes (\d+)$/m.exec(log)?.[1]);
    assert.ok(count > 100 && count <= processesMax, String(count));
  });

  test("a workspace does not learn from the build cache which steps another workspace has run", async () => {
    const [one, other] = [randomUUID(), randomUUID()];
    const dockerfile = [`FROM ${nodeImage}`, "COPY step.js /", runNode("/step.js")];
    const step = { "step.js": `console.log("made " + require("crypto").randomUUID()); // ${randomUUID()}` };
    const first = await build(one, dockerfile, step);
    assert.match(first.log, /^made /m);
    assert.doesNotMatch((await build(one, dockerfile, step)).log, /^made /m, "a workspace uses its own cache");
    const theirs = await build(other, dockerfile, step);
    assert.match(theirs.log, /^made /m);
    assert.doesNotMatch(theirs.log, /unchanged since an earlier build/);
  });

  test("a Dockerfile that hides a stage and forges another workspace's label gets none of its cached steps", async () => {
    const victim = randomUUID();
    const step = runNode("-e", `console.log("made " + require("crypto").randomUUID()) /* ${randomUUID()} */`);
    const made = await build(victim, [`FROM ${nodeImage}`, step]);
    assert.ok(made.result.ok, JSON.stringify(made.result));
    const label = `LABEL "pierhead.dev/installation"="${target.installationId}" "pierhead.dev/tenant"="${victim}"`;
    // Where the value of A ends differs between engines, so the second FROM may look like a part of it.
    for (const [top, value] of [
      ["# escape=`", "\\"],
      ["# syntax=x\n# escape=`", "\\"],
      ["# comment", "\\\\"],
      ["# comment", "\\\u00a0"],
    ] as const) {
      const dockerfile = [top, `FROM ${nodeImage} AS first`, `ENV A=${value}`, `FROM ${nodeImage}`, label, step];
      const { result, log } = await build(randomUUID(), dockerfile);
      if (!result.ok) assert.match(result.reason, /^(Unsupported|BuildFailed)$/, result.message);
      else assert.match(log, /^made /m, `${top} ${value}`);
    }
  });

  test("triggers of a base image do not run from the cache of another workspace", async () => {
    const { Id } = await engine.call<{ Id: string }>("POST", "/containers/create", {
      body: { Image: nodeImage, Cmd: ["true"] },
    });
    const repo = `triggering-${randomUUID().slice(0, 8)}`;
    const changes = `ONBUILD ${runNode("-e", 'console.log("made " + require("crypto").randomUUID())')}`;
    await engine.call("POST", "/commit", { query: { container: Id, repo, tag: "1", changes } });
    await engine.call("DELETE", `/containers/${Id}`);
    for (const tenantId of [randomUUID(), randomUUID()]) {
      const { result, log } = await build(tenantId, [`FROM ${repo}:1`, "ENV A=1"]);
      assert.ok(result.ok, JSON.stringify(result));
      assert.match(log, /^made /m);
    }
  });

  test("a build does not fill the disk of the machine with volumes that its Dockerfile declares", async () => {
    const writing = `
      const fs = require("fs");
      const file = fs.openSync("/volume/large", "w");
      let left = 250;
      setInterval(() => left-- > 0 && fs.writeSync(file, Buffer.alloc(4 << 20, 1)), 20);
      setTimeout(() => process.exit(), 120_000);
    `;
    const dockerfile = [`FROM ${nodeImage}`, "VOLUME /volume", "COPY write.js /", runNode("/write.js")];
    const { result, log } = await build(randomUUID(), dockerfile, { "write.js": writing }, limited);
    assert.deepEqual([result.ok, !result.ok && result.reason], [false, "DiskFull"], log);
  });

  test("a build does not hide its files at paths that are too long to be measured", async () => {
    const { result } = await build(
      randomUUID(),
      [`FROM ${nodeImage}`, "COPY deep.js /", runNode("/deep.js")],
      {
        "deep.js": `const fs = require("fs"); process.chdir("/tmp");
        for (let left = 20; left > 0; left--) { fs.mkdirSync("d".repeat(250)); process.chdir("d".repeat(250)); }
        setTimeout(() => {}, 60000);`,
      },
      limited,
    );
    assert.match(JSON.stringify(result), /DiskFull.*paths are too long/);
  });

  test("a build does not fill the disk of the machine with many layers below its limit", async () => {
    const writing = 'require("fs").writeFileSync("/file" + process.argv[2], Buffer.alloc(40 << 20, 1))';
    const steps = Array.from({ length: 12 }, (_, at) => `RUN ["node", "/write.js", "${at}"]`);
    const stages = (lines: string[]) => lines.flatMap((line) => [`FROM ${nodeImage}`, "COPY write.js /", line]);
    const files = { "write.js": writing };
    for (const lines of [[`FROM ${nodeImage}`, "COPY write.js /", ...steps], stages(steps)]) {
      const dockerfile = [...lines, 'RUN ["node", "-e", "console.log(\'the last step\')"]'];
      const { result, log } = await build(randomUUID(), dockerfile, files, limited);
      assert.deepEqual([result.ok, !result.ok && result.reason], [false, "DiskFull"], log);
      assert.ok(!/^the last step$/m.test(log), "it is stopped on the way");
    }
  });
});

const runNode = (...args: string[]) => `RUN ${JSON.stringify(["node", ...args])}`;

/**
 * Program that prints which addresses it reaches in one of several attempts. An address counts as unreachable after three
 * failures in a row: Docker 20.10 lets packets pass between networks for milliseconds when it creates another one.
 */
const reachProgram = (addresses: string[]) => `
  const reaches = async (url) => {
    for (let failed = 0, tries = 0; tries < 20; tries++) {
      const isReached = await fetch(url, { signal: AbortSignal.timeout(1_000) }).then(() => true, () => false);
      failed = isReached ? 0 : failed + 1;
      if (failed === 3) return false;
    }
    return true;
  };
  (async () => {
    const reached = [];
    for (const url of ${JSON.stringify(addresses)}) if (await reaches(url)) reached.push(url);
    console.log("reached " + (reached.join(" ") || "nothing"));
  })();`;
