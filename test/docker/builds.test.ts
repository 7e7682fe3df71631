import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { BuildRequest, ImageTarget } from "../../src/builds/build.ts";
import { readArtifact } from "../../src/builds/cache/artifact.ts";
import { dropArtifact, isUsable } from "../../src/builds/image/saved-image.ts";
import { openDockerCompute } from "../../src/compute/docker/docker-compute.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { baseTag } from "../../src/compute/docker/images/images.ts";
import { labels } from "../../src/compute/docker/replicas/container.ts";
import { begin, filesSource, gitRepository, gitSource, scratch } from "../builds/fixtures.ts";
import { soon } from "../compute/compute-world.ts";
import { anySpec } from "../compute/conformance.ts";
import { eventually } from "../support/eventually.ts";
import { buildImage, nodeImage } from "./base-image.ts";
import { ask, DockerWorld, worldOptions } from "./docker-world.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

const server = `
const http = require("node:http");
http.createServer((_, response) => response.end(require("./answer.js"))).listen(process.env.PORT, process.env.HOST);
process.on("SIGTERM", () => process.exit(0));
`;
const lock = JSON.stringify({ name: "agent", lockfileVersion: 3, packages: { "": { name: "agent" } } });
const project = (more: Record<string, string> = {}) => ({
  "pierhead.json": JSON.stringify({ build: [["npm", "run", "build"]], start: ["node", "server.js"] }),
  "package.json": JSON.stringify({ name: "agent", scripts: { build: "node make.js" } }),
  "package-lock.json": lock,
  "make.js":
    'require("fs").writeFileSync("answer.js", "module.exports = \\"built\\""); console.log("made the answer");',
  "server.js": server,
  ...more,
});

describe("docker: image builds", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  let target: ImageTarget;
  before(async () => {
    ({ engine, end } = await engineForTests());
    const installationId = randomUUID();
    target = {
      kind: "image",
      host: engine.host,
      installationId,
      nodeImage,
      pythonImage: "",
      registryAuthFile: null,
      memoryMib: 512,
      cpuCores: 1,
    };
  });
  after(() => end?.());

  const build = async (dir: string, files: Record<string, string>, changes: Partial<BuildRequest> = {}) => {
    const begun = begin(dir, await filesSource(path.join(dir, `source-${randomUUID()}`), files), {
      target,
      ...changes,
    });
    return { ...begun, result: await begun.build.result };
  };
  const failed = async (files: Record<string, string>, changes: Partial<BuildRequest> = {}) => {
    await using workdir = await scratch();
    const { result } = await build(workdir.dir, files, changes);
    assert.ok(!result.ok);
    return result;
  };
  const ours = (path: string) =>
    engine.call<{ Id: string }[]>("GET", path, {
      query: { all: true, filters: { label: [`pierhead.dev/installation=${target.installationId}`] } },
    });

  test("builds a project in containers into an image that serves requests", async () => {
    await using workdir = await scratch();
    const { result, lines } = await build(workdir.dir, project());
    assert.ok(result.ok, JSON.stringify(result));
    const { artifact } = result;
    assert.equal(artifact.kind, "image");
    assert.match(artifact.digest, /^sha256:[0-9a-f]{64}$/);
    assert.equal(artifact.rollout, "rolling");
    assert.ok(lines.some(({ stream, message }) => stream === "stdout" && message === "made the answer"));
    await using world = await DockerWorld.open(engine);
    const state = await world.start(anySpec(artifact));
    assert.equal(await ask(state, "/"), "built");
    const details = await engine.call<{ Config: { User: string; Labels: Record<string, string> } }>(
      "GET",
      `/images/${artifact.digest}/json`,
    );
    assert.equal(details.Config.User, "10001:10001");
    assert.match(details.Config.Labels["pierhead.dev/builder"] ?? "", /./);
  });

  test("an unchanged source is not built again while its image exists", async () => {
    await using workdir = await scratch();
    const key = randomUUID().replaceAll("-", "");
    const first = await build(workdir.dir, project({ "answer.txt": "again" }), { key });
    assert.ok(first.result.ok);
    const second = await build(workdir.dir, project({ "answer.txt": "again" }), { key });
    assert.ok(second.result.ok && second.result.cached);
    const directory = path.join(workdir.dir, "artifacts", key);
    assert.equal(await isUsable(first.result.artifact, target), true);
    assert.equal(await dropArtifact(directory, target), true);
    assert.equal(await readArtifact(directory), undefined);
    assert.equal(await isUsable(first.result.artifact, target), false);
    const third = await build(workdir.dir, project({ "answer.txt": "again" }), { key });
    assert.ok(third.result.ok && !third.result.cached);
  });

  test("a Dockerfile of the project is built, without files that .dockerignore excludes", async () => {
    await using workdir = await scratch();
    const files = {
      Dockerfile: [
        `FROM ${nodeImage} AS made`,
        "COPY . /app",
        'RUN ["node", "-e", "require(`fs`).writeFileSync(`/app/answer.js`, `module.exports=require(\\\\`fs\\\\`).readdirSync(__dirname).join()`)"]',
        `FROM ${nodeImage}`,
        "COPY --from=made /app /app",
        'CMD ["node", "/app/server.js"]',
      ].join("\n"),
      ".dockerignore": "*.md\n!KEEP.md\nsecret\n",
      "README.md": "",
      "KEEP.md": "",
      "secret/key": "",
      "server.js": server,
    };
    const { result } = await build(workdir.dir, files);
    assert.ok(result.ok, JSON.stringify(result));
    await using world = await DockerWorld.open(engine);
    const listed = await ask(await world.start(anySpec(result.artifact)), "/");
    assert.equal(listed, ".dockerignore,Dockerfile,KEEP.md,answer.js,server.js");
  });

  test("pierhead.json sets the Dockerfile, its health path and its state", async () => {
    await using workdir = await scratch();
    const { result } = await build(
      workdir.dir,
      {
        "agent/pierhead.json": JSON.stringify({
          dockerfile: "image/Dockerfile",
          health: "/health",
          state: "exclusive",
        }),
        "agent/image/Dockerfile": `FROM ${nodeImage}\nCMD ["node", "-v"]\n`,
      },
      { configPath: "agent/pierhead.json" },
    );
    assert.ok(result.ok, JSON.stringify(result));
    const { artifact } = result;
    assert.deepEqual([artifact.health_path, artifact.rollout], ["/health", "handover"]);
  });

  test("a failed build is reported with its exit code and last lines, and with the command that failed", async () => {
    const failing = project({ "make.js": 'console.log("compiling"); console.error("no such type"); process.exit(2);' });
    const result = await failed(failing);
    assert.equal(result.reason, "BuildFailed");
    assert.match(result.message, /`npm run build` ended with exit code 2.*no such type/s);
    const install = await failed(project(), { installCommand: "node -e 'process.exit(7)'" });
    assert.equal(install.reason, "InstallFailed");
    assert.match(install.message, /exit code 7/);
    const own = await failed({ Dockerfile: `FROM ${nodeImage}\nRUN --mount=type=cache,target=/x true\n` });
    assert.deepEqual([own.reason, /BuildKit/.test(own.message)], ["Unsupported", true], own.message);
    const missing = await failed({ Dockerfile: `FROM ${nodeImage}\nCOPY nothing /\n` });
    assert.equal(missing.reason, "BuildFailed");
    assert.match(missing.message, /COPY nothing \/.*(nothing|not found|no such file)/s);
  });

  test("rejects triggers that copy another workspace's image, and builds for another platform than the engine's", async () => {
    const { Id } = await engine.call<{ Id: string }>("POST", "/containers/create", {
      body: { Image: nodeImage, Cmd: ["true"] },
    });
    const commit = (tag: string, changes: string) =>
      engine.call<{ Id: string }>("POST", "/commit", { query: { container: Id, repo: "triggers", tag, changes } });
    const other = await commit("other", "ENV SECRET=1");
    await commit("greedy", `ONBUILD COPY --from=${other.Id.slice(7, 19)} / /taken`);
    await commit("plain", "ONBUILD COPY server.js /app/");
    const greedy = await failed({ Dockerfile: "FROM triggers:greedy AS base\nFROM base\n" });
    assert.equal(greedy.reason, "Unsupported");
    assert.match(greedy.message, /'FROM triggers:greedy AS base': the image .* has ONBUILD: 'COPY --from=.* own\./);
    const platform = await failed({ Dockerfile: "FROM --platform=linux/s390x triggers:plain\n" });
    assert.deepEqual([platform.reason, /linux\/s390x.*elsewhere/.test(platform.message)], ["Unsupported", true]);
    const missing = await failed({ Dockerfile: "FROM 127.0.0.1:1/nobody/image:1\n" });
    assert.equal(missing.reason, "BuildFailed");
    assert.match(missing.message, /^FROM 127\.0\.0\.1:1\/nobody\/image:1: .*refused/);
    await using workdir = await scratch();
    const { result } = await build(workdir.dir, project({ Dockerfile: "FROM triggers:plain\n" }));
    assert.ok(result.ok, JSON.stringify(result));
  });

  test("builds a Dockerfile with the labels of a replica, and does not mistake it for one", async () => {
    await using workdir = await scratch();
    const forged = [labels.replica, labels.deployment, labels.revision, labels.tenant];
    const lines = [...forged.map((name) => `LABEL ${name}="x"`), `LABEL ${labels.facts}="{"`];
    const files = {
      Dockerfile: [`FROM ${nodeImage}`, ...lines, 'RUN ["node", "-e", "setTimeout(() => {}, 6000)"]'].join("\n"),
    };
    const source = await filesSource(path.join(workdir.dir, "source"), files);
    const { build: running } = begin(workdir.dir, source, { target });
    const filters = { label: [labels.facts], status: ["running"] };
    await eventually(
      () => engine.call<unknown[]>("GET", "/containers/json", { query: { filters } }),
      (found) => found.length > 0,
      { what: "the build's container" },
    );
    const compute = await openDockerCompute(await worldOptions(engine, { installationId: target.installationId }));
    assert.deepEqual(await compute.observe(soon()), []);
    await compute.close();
    const result = await running.result;
    assert.ok(result.ok, JSON.stringify(result));
  });

  test("a file name that is not UTF-8, which git allows, is reported by name", async () => {
    await using workdir = await scratch();
    const repository = await gitRepository(path.join(workdir.dir, "repository"));
    await writeFile(Buffer.concat([Buffer.from(`${repository.dir}/caf`), Buffer.from([0xe9])]), "");
    const source = gitSource(repository, await repository.commit(project()));
    const result = await begin(workdir.dir, source, { target }).build.result;
    assert.deepEqual(result.ok || [result.reason, result.message], [
      "Unsupported",
      "The name of 'caf\uFFFD' is not UTF-8, so it cannot be put into an image. Rename it.",
    ]);
  });

  test("does not label images that users base on Pierhead's images as its own", async () => {
    await using workdir = await scratch();
    assert.ok((await build(workdir.dir, project())).result.ok);
    const images = await engine.call<{ RepoTags: string[] | null }[]>("GET", "/images/json");
    const isBase = (tag: string) => tag.startsWith(`${baseTag(target.installationId)}command-`);
    const base = images.flatMap(({ RepoTags }) => RepoTags ?? []).find(isBase);
    const name = `team/agent-${randomUUID().slice(0, 8)}`;
    await buildImage(engine, `${name}:1`, { Dockerfile: `FROM ${base}\nENV TEAM=1` });
    const { Id, Config } = await engine.call<{ Id: string; Config: { Labels: Record<string, string> } }>(
      "GET",
      `/images/${name}:1/json`,
    );
    assert.notEqual(Config.Labels[labels.installation], target.installationId);
    assert.ok(!(await ours("/images/json")).some((image) => image.Id === Id));
    await engine.call("DELETE", `/images/${Id}`, { query: { force: true } });
  });

  test("a build that exceeds its memory limit is killed, and the message names the limit", async () => {
    const greedy = "const held = []; for (;;) held.push(Buffer.alloc(16 << 20, 1));";
    const result = await failed(project({ "make.js": greedy }), { target: { ...target, memoryMib: 128 } });
    assert.equal(result.reason, "BuildFailed");
    assert.match(result.message, /128 MiB/);
  });

  test("a build that exceeds its disk limit is stopped with DiskFull", async () => {
    const writing = `
      const fs = require("fs");
      const file = fs.openSync("large", "w");
      setInterval(() => fs.writeSync(file, Buffer.alloc(4 << 20, 1)), 20);
    `;
    const result = await failed(project({ "make.js": writing }), { diskBytesMax: 300 * 1024 * 1024 });
    assert.equal(result.reason, "DiskFull");
  });

  test("a build that is cancelled or times out leaves nothing running", async () => {
    await using workdir = await scratch();
    const files = project({ "make.js": 'console.log("waiting"); setInterval(() => {}, 1000);' });
    const { build: cancelled, lines } = begin(workdir.dir, await filesSource(path.join(workdir.dir, "source"), files), {
      target,
    });
    await eventually(
      () => lines.some(({ message }) => message === "waiting"),
      (isRunning) => isRunning,
    );
    assert.equal((await ours("/containers/json")).length, 1);
    await cancelled.cancel();
    const outcome = await cancelled.result;
    assert.ok(!outcome.ok && outcome.reason === "Cancelled");
    await eventually(
      () => ours("/containers/json"),
      (left) => left.length === 0,
      { what: "the build's container is removed" },
    );
    const late = await failed(files, { timeoutMs: 20_000 });
    assert.equal(late.reason, "Timeout");
    await eventually(
      () => ours("/containers/json"),
      (left) => left.length === 0,
      { what: "the build's container is removed" },
    );
  });
});
