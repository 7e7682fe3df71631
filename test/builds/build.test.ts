import assert from "node:assert/strict";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import type { BuildSource } from "../../src/builds/build.ts";
import { builderVersion, listArtifacts, readArtifact, removeArtifact } from "../../src/builds/cache/artifact.ts";
import { removeWorkDirs, sweepWorkDirs } from "../../src/builds/worker/start-build.ts";
import { begin, filesSource, gitRepository, gitSource, scratch } from "./fixtures.ts";
import { gzippedTar, writeArchive } from "./tar-fixture.ts";

const server = {
  "pierhead.json": JSON.stringify({ start: ["node", "server.js"], state: "exclusive" }),
  "server.js": "",
};

/** A project that npm installs without a registry. */
const npmProject = {
  "package.json": JSON.stringify({ name: "plain", version: "1.0.0", scripts: { build: "node build.js" } }),
  "package-lock.json": JSON.stringify({
    name: "plain",
    version: "1.0.0",
    lockfileVersion: 3,
    packages: { "": { name: "plain", version: "1.0.0" } },
  }),
  "build.js": "require('node:fs').writeFileSync('built.txt', process.env.GREETING ?? 'built')",
};

test("builds a commit into an artifact under its key and removes the scratch space", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  const commitSha = await repository.commit({
    "README.md": "a monorepo",
    ...Object.fromEntries(Object.entries(npmProject).map(([name, content]) => [`apps/one/${name}`, content])),
    "apps/one/pierhead.json": JSON.stringify({
      build: [
        ["npm", "ci"],
        ["npm", "run", "build"],
      ],
      start: ["node", "server.js"],
      health: "/health",
    }),
    "apps/one/server.js": "",
  });
  const { build, lines, log } = begin(place.dir, gitSource(repository, commitSha), {
    configPath: "apps/one/pierhead.json",
    key: "the-key",
  });
  const result = await build.result;
  assert.ok(result.ok, log());
  const directory = path.join(place.dir, "artifacts/the-key");
  assert.deepEqual(result.artifact, {
    kind: "directory",
    digest: "sha256:the-key",
    path: directory,
    start: { runner: "command", argv: ["node", "server.js"], cwd: "apps/one" },
    health_path: "/health",
    rollout: "rolling",
    engine: "own",
    builder: builderVersion,
  });
  assert.deepEqual(await readArtifact(directory), result.artifact);
  assert.equal(await readFile(path.join(directory, "apps/one/built.txt"), "utf8"), "built");
  await assert.rejects(stat(path.join(directory, ".git")));
  assert.deepEqual(await readdir(path.join(place.dir, "builds")), []);
  assert.deepEqual(result.steps.map(({ name }) => name).slice(1), [
    "Read the configuration",
    "Install dependencies",
    "Build",
    "Prepare the start",
    "Store the artifact",
  ]);
  const steps = lines.filter(({ stream, message }) => stream === "pierhead" && /^Step \d\/6: /.test(message));
  assert.equal(steps.length, 6);
  assert.match(log(), /Step 4\/6 done in \d+\.\d s/);
});

test("reuses the artifact of a source that was built before", async () => {
  await using place = await scratch();
  const source = await filesSource(path.join(place.dir, "in"), {
    ...server,
    "pierhead.json": JSON.stringify({ build: ["node", "-e", "1"], start: ["node", "server.js"] }),
  });
  const first = await begin(place.dir, source, { key: "same" }).build.result;
  const second = begin(place.dir, source, { key: "same" });
  const result = await second.build.result;
  assert.ok(first.ok && result.ok);
  assert.deepEqual([result.cached, result.steps, result.artifact], [true, [], first.artifact]);
  assert.doesNotMatch(second.log(), /Step|\$/);
});

test("leaves one artifact after two simultaneous builds of one source", async () => {
  await using place = await scratch();
  const source = await filesSource(path.join(place.dir, "in"), server);
  const results = await Promise.all([1, 2, 3].map(() => begin(place.dir, source, { key: "same" }).build.result));
  assert.deepEqual(
    results.map(({ ok }) => ok),
    [true, true, true],
  );
  assert.deepEqual(await readdir(path.join(place.dir, "artifacts")), ["same"]);
});

test("replaces the remains of a broken artifact", async () => {
  await using place = await scratch();
  const source = await filesSource(path.join(place.dir, "in"), server);
  await mkdir(path.join(place.dir, "artifacts/same/old"), { recursive: true });
  const result = await begin(place.dir, source, { key: "same" }).build.result;
  assert.ok(result.ok && !result.cached);
  assert.deepEqual((await readdir(result.artifact.kind === "directory" ? result.artifact.path : "")).toSorted(), [
    ".pierhead-artifact.json",
    "pierhead.json",
    "server.js",
  ]);
});

test("rolls out by handover when the state is exclusive", async () => {
  await using place = await scratch();
  const result = await begin(place.dir, await filesSource(path.join(place.dir, "in"), server)).build.result;
  assert.equal(result.ok && result.artifact.rollout, "handover");
});

const tarball = ({ path, sha256 }: { path: string; sha256: string }) =>
  ({ kind: "tarball", place: { path }, sha256 }) as const;

test("builds an uploaded archive and rejects a hostile one with ArchiveRefused", async () => {
  await using place = await scratch();
  const entries = Object.entries(server).map(([name, content]) => ({ name, content }));
  const good = await writeArchive(path.join(place.dir, "good.tar.gz"), gzippedTar(entries));
  const bad = await writeArchive(path.join(place.dir, "bad.tar.gz"), gzippedTar([...entries, { name: "../evil" }]));
  const result = await begin(place.dir, tarball(good)).build.result;
  assert.ok(result.ok);
  const refused = await begin(place.dir, tarball(bad)).build.result;
  assert.equal(!refused.ok && refused.reason, "ArchiveRefused");
  const large = await begin(
    place.dir,
    tarball(
      await writeArchive(
        path.join(place.dir, "large.tar.gz"),
        gzippedTar([{ name: "a", content: Buffer.alloc(2_000_000) }]),
      ),
    ),
    { diskBytesMax: 1_000_000 },
  ).build.result;
  assert.match(large.ok ? "" : large.message, /unpacks to more than 1 MB/);
});

test("runs install and build commands without a shell, with their own environment and in the right directories", async () => {
  await using place = await scratch();
  const inApp = Object.fromEntries(Object.entries(npmProject).map(([name, content]) => [`app/${name}`, content]));
  const source = await filesSource(path.join(place.dir, "in"), {
    ...inApp,
    "app/pierhead.json": server["pierhead.json"],
  });
  const { build, log } = begin(place.dir, source, {
    configPath: "app/pierhead.json",
    installCommand: "node -e 'fs.writeFileSync(`installed-${path.basename(process.cwd())}`, ``)' && cd app && npm ci",
    buildCommand: "GREETING='hello there' npm run build",
  });
  const result = await build.result;
  assert.ok(result.ok && result.artifact.kind === "directory", log());
  assert.ok((await readdir(result.artifact.path)).includes("installed-source"));
  assert.equal(await readFile(path.join(result.artifact.path, "app/built.txt"), "utf8"), "hello there");
});

test("reinstalls packages that are part of the project for every build", async () => {
  await using place = await scratch();
  const lock = {
    name: "plain",
    lockfileVersion: 3,
    packages: {
      "": { name: "plain", dependencies: { part: "file:part" } },
      "node_modules/part": { resolved: "part", link: true },
      part: { version: "1.0.0" },
    },
  };
  const files = {
    ...server,
    "package.json": JSON.stringify({ name: "plain", dependencies: { part: "file:part" } }),
    "package-lock.json": JSON.stringify(lock),
    "part/package.json": JSON.stringify({ name: "part", version: "1.0.0" }),
  };
  for (const key of ["first", "second"]) {
    const { build, log } = begin(place.dir, await filesSource(path.join(place.dir, key), files), {
      installCommand: "npm ci",
    });
    const result = await build.result;
    assert.ok(result.ok && result.artifact.kind === "directory", log());
    assert.match(log(), /added 1 package/);
    assert.ok((await stat(path.join(result.artifact.path, "node_modules/part/package.json"))).isFile());
  }
});

test("runs no more than one program per command of a user", async () => {
  await using place = await scratch();
  const source = await filesSource(path.join(place.dir, "in"), server);
  const canary = path.join(place.dir, "canary");
  for (const evil of [
    `node -v; touch ${canary}`,
    `node -v | touch ${canary}`,
    `node -v $(touch ${canary})`,
    `node -v & touch ${canary}`,
    `node -v\ntouch ${canary}`,
    `node -v > ${canary}`,
  ]) {
    for (const field of ["installCommand", "buildCommand"]) {
      const result = await begin(place.dir, source, { [field]: evil }).build.result;
      assert.equal(!result.ok && result.reason, "CommandInvalid", evil);
    }
  }
  await assert.rejects(stat(canary));
});

test("reports a failed command with its exit code and last lines", async () => {
  await using place = await scratch();
  const script =
    "for (let i = 0; i < 40; i++) console.log('line ' + i); console.error('\\x1b[31mboom\\x1b[0m'); process.exit(7)";
  const source = await filesSource(path.join(place.dir, "in"), {
    "pierhead.json": JSON.stringify({ build: ["node", "fail.js"], start: ["node"] }),
    "fail.js": script,
  });
  const { build, lines } = begin(place.dir, source);
  const result = await build.result;
  assert.equal(!result.ok && result.reason, "BuildFailed");
  assert.match(
    result.ok ? "" : result.message,
    /^`node fail\.js` ended with exit code 7 after \d+\.\d s\. Last lines:\n.*line 39\nboom$/s,
  );
  assert.match(lines.at(-1)?.message ?? "", /^BuildFailed: `node fail\.js` ended with exit code 7/);
  assert.equal(lines.at(-1)?.level, "ERROR");
  assert.deepEqual(await readdir(place.dir).then((names) => names.includes("artifacts")), false);
});

test("reports each failure with its reason and what to do", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  const commitSha = await repository.commit(server);
  const git = gitSource(repository, commitSha) as Extract<BuildSource, { kind: "git" }>;
  const langgraph = (...graphs: string[]) => ({ "langgraph.json": JSON.stringify({ graphs: { ...graphs } }) });
  let run = 0;
  const files = (given: Record<string, string>) => filesSource(path.join(place.dir, `in-${run++}`), given);
  const cases: [BuildSource, object, string, RegExp][] = [
    [{ ...git, commitSha: "a".repeat(40) }, {}, "FetchFailed", /no commit a{40}/],
    [{ ...git, repoUrl: path.join(place.dir, "none") }, {}, "FetchFailed", /no git repository at/],
    [{ ...git, allowLocal: false }, {}, "FetchFailed", /PIERHEAD_ALLOW_LOCAL_SOURCES/],
    [
      { ...git, repoUrl: "http://127.0.0.1:1/x", allowPrivateNetwork: false },
      {},
      "FetchFailed",
      /not a public address/,
    ],
    [
      git,
      { configPath: "none.json" },
      "ConfigMissing",
      /^none\.json not found in the source\. The source contains pierhead\.json\. Use --config pierhead\.json\.$/,
    ],
    [await files({ "pierhead.json": "{" }), {}, "ConfigInvalid", /line 1, column 2/],
    [await files(langgraph("./a.py:graph", "./b.ts:graph")), {}, "Unsupported", /runs one language/],
    [
      await files(langgraph("./none.ts:graph")),
      {},
      "ConfigInvalid",
      /'none\.ts', which does not exist .* build_command/,
    ],
    [
      await files({ ...langgraph("./a.ts:graph"), "package.json": "{", "package-lock.json": "{}" }),
      {},
      "InstallFailed",
      /npm ci.*exit code/s,
    ],
    [
      await files(server),
      { buildCommand: "no-such-program --help" },
      "CommandInvalid",
      /'no-such-program' was not found on the PATH of this server/,
    ],
    [
      await files(server),
      { buildCommand: "granian main:app" },
      "CommandInvalid",
      /Set "python": true in pierhead\.json/,
    ],
    [
      await files(server),
      { buildCommand: "cd none && node -v" },
      "CommandInvalid",
      /no directory 'none' in the source/,
    ],
    [await files(server), { installCommand: "./pierhead.json" }, "CommandInvalid", /may not be executed/],
    [
      await files({
        "pierhead.json": JSON.stringify({
          build: ["node", "-e", "console.log('ENOSPC: no space left on device'); process.exit(1)"],
          start: ["x"],
        }),
      }),
      {},
      "DiskFull",
      /free space/,
    ],
    [tarball({ path: path.join(place.dir, "none"), sha256: "" }), {}, "FetchFailed", /Upload the source again/],
  ];
  for (const [source, changes, reason, message] of cases) {
    const { build, log } = begin(place.dir, source, changes);
    const result = await build.result;
    assert.equal(result.ok ? "succeeded" : result.reason, reason, log());
    assert.match(result.ok ? "" : result.message, message);
  }
});

test("stops a build that exceeds its disk limit", async () => {
  await using place = await scratch();
  const fill =
    "const fs = require('node:fs'); const mb = Buffer.alloc(1e6, 1); setInterval(() => { for (let i = 0; i < 5; i++) fs.appendFileSync('fat', mb) }, 50)";
  const source = await filesSource(path.join(place.dir, "in"), {
    "pierhead.json": JSON.stringify({ build: ["node", "fill.js"], start: ["node"] }),
    "fill.js": fill,
  });
  const result = await begin(place.dir, source, { diskBytesMax: 20e6 }).build.result;
  assert.equal(!result.ok && result.reason, "DiskFull");
  assert.match(result.ok ? "" : result.message, /the limit is 20 MB/);
  assert.deepEqual(await readdir(path.join(place.dir, "builds")), []);
});

test("limits a flood of output, counts dropped lines and logs the last ones", async () => {
  await using place = await scratch();
  const flood =
    "for (let i = 0; i < 70000; i++) console.log('line ' + i); console.log('x'.repeat(100000)); console.log('the end\\0 \\x1b[2J')";
  const source = await filesSource(path.join(place.dir, "in"), {
    "pierhead.json": JSON.stringify({ build: ["node", "flood.js"], start: ["node"] }),
    "flood.js": flood,
  });
  const { build, lines } = begin(place.dir, source);
  assert.ok((await build.result).ok);
  assert.equal(lines.filter(({ stream }) => stream === "stdout").length, 50_000);
  assert.ok(lines.every(({ message }) => Buffer.byteLength(message) <= 64 * 1024));
  const tail = lines.slice(-40).map(({ message }) => message);
  assert.ok(
    tail.some((line) => /^2000[0-9] lines \(\d+ bytes\) of output were dropped/.test(line)),
    tail.join("\n").slice(0, 2_000),
  );
  assert.equal(tail.at(-1), "the end ");
});

test("gives a build only the variables it needs, with the running Node first on PATH", async () => {
  await using place = await scratch();
  process.env["PIERHEAD_TEST_SECRET"] = "secret";
  process.env["DATABASE_URL"] = "postgres://secret";
  try {
    const source = await filesSource(path.join(place.dir, "in"), {
      "pierhead.json": JSON.stringify({ build: ["node", "env.js"], start: ["node"] }),
      "env.js":
        "require('node:fs').writeFileSync('env.json', JSON.stringify({ env: process.env, node: process.version, nice: require('node:os').getPriority() }))",
    });
    const result = await begin(place.dir, source).build.result;
    assert.ok(result.ok && result.artifact.kind === "directory");
    const { env, node, nice } = JSON.parse(await readFile(path.join(result.artifact.path, "env.json"), "utf8"));
    assert.equal(node, process.version);
    assert.ok(nice >= 10);
    assert.match(env.HOME, /builds\/test-\d+-\d+\.\w+\/home$/);
    assert.deepEqual(
      Object.keys(env).filter((name) => /PIERHEAD|DATABASE|SECRET|TOKEN/.test(name)),
      ["PIERHEAD_BUILD_ID"],
    );
  } finally {
    delete process.env["PIERHEAD_TEST_SECRET"];
    delete process.env["DATABASE_URL"];
  }
});

test("lists and removes artifacts and the work directories of dead builds", async () => {
  await using place = await scratch();
  const source = await filesSource(path.join(place.dir, "in"), server);
  await Promise.all(["a", "b"].map((key) => begin(place.dir, source, { key }).build.result));
  const artifactsDir = path.join(place.dir, "artifacts");
  await mkdir(path.join(artifactsDir, "c.removed-1-1/x"), { recursive: true });
  assert.deepEqual((await listArtifacts(artifactsDir)).map(({ key }) => key).toSorted(), ["a", "b"]);
  await removeArtifact(path.join(artifactsDir, "a"));
  await removeArtifact(path.join(artifactsDir, "a"));
  assert.deepEqual(await readdir(artifactsDir), ["b"]);
  const workRoot = path.join(place.dir, "builds");
  await Promise.all(
    ["dead.1", "alive.1", "begun-again.1", "begun-again.2"].map((id) =>
      mkdir(path.join(workRoot, id, "source"), { recursive: true }),
    ),
  );
  await writeFile(path.join(workRoot, "dead.1/source/a"), "");
  await sweepWorkDirs(workRoot, async () => {
    await mkdir(path.join(workRoot, "begun-meanwhile.1"));
    return ["alive", "begun-again"];
  });
  await removeWorkDirs(workRoot, "begun-again");
  assert.deepEqual((await readdir(workRoot)).toSorted(), ["alive.1", "begun-meanwhile.1"]);
});
