import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { postgresMisfit } from "../../src/builds/node/default-engine.ts";
import { begin, type Files, filesSource, scratch, writeFiles } from "./fixtures.ts";

/** Returns why a project of these files would not work on PostgreSQL. */
async function misfitOf(files: Files, directory = "."): Promise<string | null> {
  await using place = await scratch();
  await writeFiles(place.dir, files);
  return await postgresMisfit(place.dir, directory);
}

const example = async () => ({
  "package.json": await readFile("examples/hello-agent/package.json", "utf8"),
  "package-lock.json": await readFile("examples/hello-agent/package-lock.json", "utf8"),
});

const manifest = (dependencies: Record<string, string>) => JSON.stringify({ name: "agent", dependencies });
const asked = manifest({ "@langchain/langgraph": "^1.0.0" });

test("a lock file of npm decides with the versions that Node finds from the project", async () => {
  const files = await example();
  assert.equal(await misfitOf(files), null);
  const lock = (packages: object) => JSON.stringify({ lockfileVersion: 3, packages });
  const old = { "node_modules/@langchain/langgraph": { version: "1.3.9" } };
  const misfit = /^package-lock\.json has @langchain\/langgraph 1\.3\.9, and the engine needs \^1\.4\.18$/;
  assert.match((await misfitOf({ ...files, "package-lock.json": lock(old) })) ?? "", misfit);
  const through = {
    "node_modules/langchain": { version: "1.0.0" },
    "node_modules/langchain/node_modules/@langchain/langgraph": { version: "1.4.20" },
    "node_modules/@langchain/core": { version: "1.0.0" },
  };
  const core = /has @langchain\/core 1\.0\.0, and the engine needs \^1\.1\.48$/;
  assert.match((await misfitOf({ ...files, "package-lock.json": lock(through) })) ?? "", core);
  const ofVersion1 = JSON.stringify({
    lockfileVersion: 1,
    dependencies: { "@langchain/langgraph": { version: "0.2.0" } },
  });
  assert.match((await misfitOf({ ...files, "package-lock.json": ofVersion1 })) ?? "", /langgraph 0\.2\.0/);
});

test("the lock file of a workspace decides with the version of the member", async () => {
  const packages = {
    "": { workspaces: ["agents/*"] },
    "node_modules/@langchain/langgraph": { version: "1.4.18" },
    "agents/old/node_modules/@langchain/langgraph": { version: "0.4.0" },
  };
  const files = {
    "package.json": JSON.stringify({ name: "root", workspaces: ["agents/*"] }),
    "package-lock.json": JSON.stringify({ lockfileVersion: 3, packages }),
    "agents/new/package.json": asked,
    "agents/old/package.json": asked,
  };
  assert.equal(await misfitOf(files, "agents/new"), null);
  assert.match((await misfitOf(files, "agents/old")) ?? "", /^package-lock\.json has @langchain\/langgraph 0\.4\.0/);
});

test("lock files of Yarn, pnpm and Bun decide", async () => {
  const lockFiles: [name: string, text: (version: string) => string][] = [
    [
      "yarn.lock",
      (version) =>
        `# yarn lockfile v1\n\n\n"@langchain/langgraph-checkpoint@^1.0.0":\n  version "0.1.0"\n\n"@langchain/langgraph@^1.0.0", "@langchain/langgraph@^1.1.0":\n  version "${version}"\n  resolved "https://registry.yarnpkg.com/x.tgz"\n`,
    ],
    [
      "yarn.lock",
      (version) =>
        `__metadata:\n  version: 8\n\n"@langchain/langgraph@npm:^1.0.0":\n  version: ${version}\n  resolution: "@langchain/langgraph@npm:${version}"\n`,
    ],
    [
      "pnpm-lock.yaml",
      (version) =>
        `lockfileVersion: '9.0'\n\npackages:\n\n  '@langchain/langgraph-checkpoint@0.1.0':\n    resolution: {}\n\n  '@langchain/langgraph@${version}':\n    resolution: {}\n\nsnapshots:\n\n  '@langchain/langgraph@${version}(@langchain/core@1.2.13)':\n    dependencies: {}\n`,
    ],
    [
      "pnpm-lock.yaml",
      (version) => `lockfileVersion: '6.0'\n\npackages:\n\n  /@langchain/langgraph@${version}(zod@4.0.0):\n`,
    ],
    [
      "bun.lock",
      (version) =>
        `{\n  "packages": {\n    "@langchain/langgraph": ["@langchain/langgraph@${version}", "", {}],\n  }\n}\n`,
    ],
  ];
  for (const [name, textOf] of lockFiles) {
    const misfit = (version: string, newLine = "\n") =>
      misfitOf({ "package.json": asked, [name]: textOf(version).replaceAll("\n", newLine) });
    assert.equal(await misfit("1.4.18"), null, name);
    assert.equal(await misfit("1.5.0", "\r\n"), null, name);
    assert.equal(
      await misfit("1.4.17", "\r\n"),
      `${name} has @langchain/langgraph 1.4.17, and the engine needs ^1.4.18`,
    );
  }
  const binary = await misfitOf({ "package.json": asked, "bun.lockb": "\0" });
  assert.equal(binary, "the versions of the packages in bun.lockb cannot be read before the build");
});

test("without a lock file, the newest version that package.json allows decides", async () => {
  const misfit = (range: string, core?: string) =>
    misfitOf({
      "package.json": manifest({
        "@langchain/langgraph": range,
        ...(core !== undefined && { "@langchain/core": core }),
      }),
    });
  for (const range of ["^1.0.0", "1.x", "*", "latest", ">=1.2 <2", "1.4.18", "^1.5.0", "~1.4.0", "0.4.0 || ^1.4.20"])
    assert.equal(await misfit(range), null, range);
  for (const range of ["~1.3.0", "1.4.17", "^0.4.0", "^2.0.0", "<1.4", "next", "workspace:*", "file:../langgraph"])
    assert.equal(await misfit(range), `package.json has @langchain/langgraph "${range}", and the engine needs ^1.4.18`);
  assert.match(
    (await misfit("^1.0.0", "~1.0.0")) ?? "",
    /@langchain\/core "~1\.0\.0", and the engine needs \^1\.1\.48/,
  );
  assert.match((await misfitOf({ "package.json": manifest({ deepagents: "^1.0.0" }) })) ?? "", /there is no lock file/);
  assert.equal(await misfitOf({ "package.json": "{}" }), null, "nothing is installed");
  assert.equal(await misfitOf({ "langgraph.json": "{}" }), null, "nothing is installed");
});

test("an image for a cluster has PostgreSQL as its default, or files with the reason in the log", async () => {
  await using place = await scratch();
  const build = async (name: string, files: Files, isDefaultKept = false) => {
    const graph = { "langgraph.json": JSON.stringify({ graphs: { agent: "./agent.js:graph" } }), "agent.js": "" };
    const source = await filesSource(path.join(place.dir, name), { ...graph, ...files });
    const bases = { installationId: "one", nodeImage: "node:24", pythonImage: "python:{version}" };
    const target = { kind: "cluster", listenerId: "one", registry: "registry.example.com/agents", ...bases } as const;
    const { build, log } = begin(place.dir, source, { target, defaultEngine: "postgres", isDefaultKept });
    const result = await build.result;
    assert.ok(result.ok, log());
    const { engine, engine_because, rollout } = result.artifact;
    return { chosen: [engine, engine_because, rollout], log: log() };
  };
  const fitting = await build("fitting", await example());
  assert.deepEqual(fitting.chosen, ["postgres", "default", "rolling"]);
  assert.match(fitting.log, /Engine: postgres, because the deployment has a PostgreSQL and langgraph\.json names no/);
  assert.doesNotMatch(fitting.log, /keeps its threads in its pod/);
  const old = { "package.json": manifest({ "@langchain/langgraph": "~1.3.0" }) };
  const misfit = await build("old", old);
  assert.deepEqual(misfit.chosen, ["file", "packages", "handover"]);
  assert.match(
    misfit.log,
    /Engine: file, although the deployment has a PostgreSQL, because package\.json has @langchain\/langgraph "~1\.3\.0", and the engine needs \^1\.4\.18\. .*pierhead change NAME --engine postgres/,
  );
  assert.match(misfit.log, /keeps its threads in its pod/);
  const serving = await build("serving", old, true);
  assert.deepEqual(serving.chosen, ["postgres", "default", "rolling"], "files would hide the threads of the database");
});

test("decides quickly about malicious lock files, and about versions that are not text", {
  timeout: 60_000,
}, async () => {
  const long = manifest({ "@langchain/langgraph": `-${"1".repeat(200_000)}!` });
  assert.ok(((await misfitOf({ "package.json": long })) ?? "").length < 500);
  const yarn = `a${", @langchain/langgraph@x".repeat(50_000)}`;
  assert.equal(await misfitOf({ "package.json": asked, "yarn.lock": yarn }), null);
  const lock = JSON.stringify({ packages: { "node_modules/@langchain/langgraph": { version: 5 } } });
  assert.equal(await misfitOf({ "package.json": asked, "package-lock.json": lock }), null);
});
