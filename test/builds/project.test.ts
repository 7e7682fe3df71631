import assert from "node:assert/strict";
import { chmod, readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import type { PythonProject } from "../../src/builds/detect/langgraph-config.ts";
import { readProject } from "../../src/builds/detect/project.ts";
import { buildFailureReasons } from "../../src/builds/failure.ts";
import { installCommand } from "../../src/builds/node/install-command.ts";
import { type Files, scratch, writeFiles } from "./fixtures.ts";

async function read(files: Files, configPath: string | null = null) {
  await using place = await scratch();
  await writeFiles(place.dir, files);
  return await readProject(place.dir, configPath, { nodeMajor: 24, target: "directory" });
}

const langgraph = (changes: object = {}) => JSON.stringify({ graphs: { agent: "./src/agent.ts:graph" }, ...changes });

test("detects a LangGraph.js project by its JavaScript or TypeScript graphs", async () => {
  const project = await read(
    {
      "apps/a/my config.json": langgraph({
        graphs: { one: "./src/one.ts:graph", two: { path: "../shared/two.mjs" } },
        auth: { path: "./auth.ts:auth" },
        node_version: "20",
        dockerfile_lines: [],
        colour: 1,
      }),
    },
    "apps/a/my config.json",
  );
  assert.equal(project.kind, "langgraph-js");
  assert.equal(project.directory, "apps/a");
  assert.deepEqual(project.kind === "langgraph-js" && project.entryFiles, [
    { place: "graphs.one", file: "apps/a/src/one.ts" },
    { place: "graphs.two.path", file: "apps/shared/two.mjs" },
    { place: "auth.path", file: "apps/a/auth.ts" },
  ]);
  assert.equal(project.warnings.length, 3);
});

test("reads a pierhead.json and prefers it to a langgraph.json in the same directory", async () => {
  const project = await read({
    "langgraph.json": langgraph(),
    "pierhead.json": JSON.stringify({
      build: [
        ["npm", "ci"],
        ["npm", "run", "x"],
      ],
      start: ["node", "server.js", ""],
      health: "/health",
      state: "exclusive",
    }),
  });
  assert.deepEqual(project, {
    kind: "command",
    configPath: "pierhead.json",
    directory: ".",
    install: null,
    python: null,
    build: [
      ["npm", "ci"],
      ["npm", "run", "x"],
    ],
    start: ["node", "server.js", ""],
    healthPath: "/health",
    isExclusive: true,
    warnings: [],
  });
  const small = await read({ "pierhead.json": JSON.stringify({ build: ["npm", "ci"], start: ["./run"] }) });
  assert.deepEqual(small.kind === "command" && [small.build, small.healthPath, small.isExclusive], [
    [["npm", "ci"]],
    "",
    false,
  ]);
});

test("lists existing configuration files when the requested one is missing", async () => {
  const files = { "examples/a/langgraph.json": "{}", "b/pierhead.json": "{}", "node_modules/x/langgraph.json": "{}" };
  await assert.rejects(read(files), {
    reason: "ConfigMissing",
    message: /b\/pierhead\.json, examples\/a\/langgraph\.json\. Use --config with one of them\./,
  });
  await assert.rejects(read(files, "langgraph.json"), {
    reason: "ConfigMissing",
    message: /langgraph\.json not found at the root of the source\./,
  });
  await assert.rejects(read({ "a.txt": "" }), { reason: "ConfigMissing", message: /Add a langgraph\.json/ });
  for (const evil of ["../langgraph.json", "/etc/passwd", "a/../../x.json", "..", "a\0.json"]) {
    await assert.rejects(read(files, evil), { reason: "ConfigMissing" });
  }
});

test("does not read a configuration that links out of the source", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, { "secret.json": langgraph(), "source/a.txt": "" });
  await symlink("../secret.json", path.join(place.dir, "source/langgraph.json"));
  await assert.rejects(
    readProject(path.join(place.dir, "source"), "langgraph.json", { nodeMajor: 24, target: "directory" }),
    { reason: "ConfigMissing" },
  );
});

test("rejects broken JSON with line and column", async () => {
  const broken: [string, RegExp][] = [
    [
      '{\n  "graphs": {\n    "a": "./a.ts:g",\n  }\n}',
      /^langgraph\.json, line 4, column 3: the comma before '}' must go/,
    ],
    ["{\n  // graphs\n}", /line 2, column 3: comments are not allowed/],
    ['{"graphs": }', /line 1, column 12: Unexpected token '}'/],
    ['{"graphs": {}', /line 1, column 14/],
    ["{'graphs': 1}", /line 1, column 2/],
    ["", /line 1, column 1: Unexpected end/],
    ["\ufeff{}", /line 1, column 1: the byte order mark/],
    ["<html>", /line 1, column 1: Unexpected token '<'/],
  ];
  for (const [text, message] of broken)
    await assert.rejects(read({ "langgraph.json": text }), { reason: "ConfigInvalid", message });
});

test("rejects an invalid value in langgraph.json with its position", async () => {
  const wrong: [object | string | number, RegExp][] = [
    [[], /langgraph\.json: it must be an object, not a list/],
    [7, /it must be an object/],
    [{}, /graphs is missing/],
    [{ graphs: {} }, /graphs must name at least one graph/],
    [{ graphs: { a: 1 } }, /graphs\.a\.path must be a string, not absent/],
    [{ graphs: { a: "../../x.ts:g" } }, /graphs\.a names '\.\.\/\.\.\/x\.ts', which is outside the source/],
    [{ graphs: { a: "/etc/x.ts:g" } }, /outside the source/],
    [{ graphs: { a: "./x.ts:" } }, /must look like '\.\/src\/agent\.ts:graph'/],
    [{ graphs: { a: "x.ts" }, node_version: "latest" }, /node_version must be a major version/],
    [{ graphs: { a: "x.ts" }, node_version: 18 }, /node_version must be a major version/],
    [{ graphs: { a: "x.ts" }, env: { A: {} } }, /env\.A must be a string/],
    [{ graphs: { a: "x.ts" }, http: { app: "../x.ts:app" } }, /http\.app names/],
  ];
  for (const [value, message] of wrong) {
    await assert.rejects(read({ "langgraph.json": JSON.stringify(value) }), { reason: "ConfigInvalid", message });
  }
});

test("rejects an invalid value in pierhead.json with its position", async () => {
  const wrong: [object, RegExp][] = [
    [{}, /start is missing/],
    [{ start: "node server.js" }, /start must be a list .* no shell/],
    [{ start: [] }, /start must name a program/],
    [{ start: ["node", 1] }, /start\[1\] must be a string, not a number/],
    [{ start: ["node"], build: "npm ci" }, /build must be a list, not a string/],
    [{ start: ["node"], build: [["npm"], "ci"] }, /build\[0\] must be a string/],
    [{ start: ["node"], health: "ok" }, /health must be a path/],
    [{ start: ["node"], health: "//evil.example/ok" }, /health must be a path/],
    [{ start: ["node"], dockerfile: "Dockerfile" }, /start cannot be combined with dockerfile/],
    [{ dockerfile: "../Dockerfile" }, /outside the source/],
    [{ start: ["node"], state: "shared" }, /state must be "exclusive" or "none"/],
    [{ start: ["node"], comand: [] }, /comand is not known; the keys are build, start, dockerfile, health, state/],
  ];
  for (const [value, message] of wrong) {
    await assert.rejects(read({ "pierhead.json": JSON.stringify(value) }), { reason: "ConfigInvalid", message });
  }
});

const python = (changes: object = {}) =>
  JSON.stringify({ graphs: { agent: "./src/agent.py:graph" }, dependencies: ["."], ...changes });

test("detects a Python project and the contents of its environment", async () => {
  const text = python({
    graphs: { one: "./agent.py:graph", two: { path: "my_agents.two:make_graph" } },
    auth: { path: "./auth.py:auth" },
    dependencies: [".", "../shared/", "langchain-openai>=1"],
    python_version: "3.12",
    pip_config_file: "./pip.conf",
    pip_installer: "pip",
    image_distro: "wolfi",
  });
  const project = await read({ "apps/a/langgraph.json": text }, "apps/a/langgraph.json");
  assert.deepEqual(project, {
    kind: "langgraph-python",
    engine: "memory",
    engineBecause: "default",
    memoryOnly: [],
    configPath: "apps/a/langgraph.json",
    directory: "apps/a",
    entryFiles: [
      { place: "graphs.one", file: "apps/a/agent.py" },
      { place: "auth.path", file: "apps/a/auth.py" },
    ],
    warnings: ["image_distro is for container images and has no effect here."],
    python: {
      version: "3.12",
      localDirs: ["apps/a", "apps/shared"],
      packages: ["langchain-openai>=1"],
      uvProject: null,
      pipConfigFile: "apps/a/pip.conf",
      installer: "pip",
    },
  });
  const locked = JSON.stringify({ graphs: { a: "./a.py:g" }, source: { kind: "uv", root: ".", package: "a" } });
  const { python: settings } = (await read({ "langgraph.json": locked })) as PythonProject;
  assert.deepEqual([settings.uvProject, settings.version], [{ directory: ".", package: "a" }, null]);
});

test("rejects an invalid Python setting with its position", async () => {
  const wrong: [object, RegExp][] = [
    [{ dependencies: null }, /dependencies is missing: it must list what the graphs need, such as \["\."\]/],
    [{ dependencies: [] }, /dependencies must list what the graphs need/],
    [{ dependencies: "." }, /dependencies must be a list/],
    [{ dependencies: ["--index-url=x"] }, /dependencies\[0\] must be a package or a directory/],
    [{ dependencies: ["../x"] }, /dependencies\[0\] names '\.\.\/x', which is outside the source/],
    [{ dependencies: ["/etc"] }, /must be a package or a directory/],
    [{ python_version: "3.10" }, /python_version must be a minor version of Python from 3\.11 on/],
    [{ python_version: "3.12.1" }, /python_version must be a minor version/],
    [{ python_version: 3 }, /python_version must be a minor version/],
    [{ pip_installer: "conda" }, /pip_installer must be "auto", "pip" or "uv"/],
    [{ pip_config_file: "../pip.conf" }, /pip_config_file names/],
    [{ source: { kind: "uv" } }, /dependencies must be absent beside source/],
    [{ dependencies: null, source: { kind: "git" } }, /source\.kind must be "uv"/],
    [{ graphs: { a: "./a.py:" } }, /graphs\.a must look like/],
  ];
  for (const [changes, message] of wrong) {
    await assert.rejects(read({ "langgraph.json": python(changes) }), { reason: "ConfigInvalid", message });
  }
});

test("rejects a project with graphs in both languages and suggests alternatives", async () => {
  const graphs = { one: "./one.ts:graph", two: "./two.py:graph" };
  await assert.rejects(read({ "langgraph.json": python({ graphs }) }), {
    reason: "Unsupported",
    message: /graphs\.one is JavaScript \('one\.ts'\) and graphs\.two is Python .* two deployments, .* docker compute/,
  });
});

test("gives each Yarn only the settings that it knows", async () => {
  await using place = await scratch();
  const settings = async (name: string, files: Files) => {
    const dir = path.join(place.dir, name);
    await writeFiles(dir, { "package.json": "{}", ...files });
    return (await installCommand(dir, ".", ""))?.env;
  };
  const [classic, berry] = [{ YARN_IGNORE_ENGINES: "true" }, { YARN_NODE_LINKER: "node-modules" }];
  assert.deepEqual(await settings("classic", { "yarn.lock": "# yarn lockfile v1\n" }), classic);
  assert.deepEqual(await settings("berry", { "yarn.lock": "__metadata:\n  version: 8\n" }), berry);
  assert.deepEqual(await settings("own", { "yarn.lock": "", ".yarnrc.yml": "yarnPath: ./yarn.cjs\n" }), berry);
  assert.deepEqual(await settings("npm", {}), {});
});

test("selects the package manager by lock file, package.json or npm, and runs a missing one through npm", async () => {
  await using place = await scratch();
  const bin = path.join(place.dir, "bin");
  await writeFiles(bin, { yarn: "#!/bin/sh\n" });
  await chmod(path.join(bin, "yarn"), 0o755);
  let run = 0;
  const command = async (files: Files, searchPath = "") => {
    const dir = path.join(place.dir, String(run++));
    await writeFiles(dir, files);
    return (await installCommand(dir, ".", searchPath))?.argv.join(" ");
  };
  const manifest = { "package.json": "{}" };
  assert.equal(await command({ "a.txt": "" }), undefined);
  assert.equal(await command(manifest), "npm install");
  assert.equal(await command({ ...manifest, "package-lock.json": "{}" }), "npm ci");
  assert.equal(
    await command({ ...manifest, "package-lock.json": "{}", "yarn.lock": "" }, bin),
    "yarn install --frozen-lockfile",
  );
  assert.equal(
    await command({ ...manifest, "yarn.lock": "" }),
    "npm exec --yes --package=yarn@1 -- yarn install --frozen-lockfile",
  );
  assert.equal(
    await command({ ...manifest, "yarn.lock": "__metadata:\n  version: 8\n" }),
    "npm exec --yes --package=@yarnpkg/cli-dist@4 -- yarn install --immutable",
  );
  assert.equal(
    await command({ ...manifest, "pnpm-lock.yaml": "lockfileVersion: '9.0'" }),
    "npm exec --yes --package=pnpm@10 -- pnpm install --frozen-lockfile",
  );
  assert.equal(
    await command({ ...manifest, "pnpm-lock.yaml": "lockfileVersion: '6.0'" }),
    "npm exec --yes --package=pnpm@8 -- pnpm install --frozen-lockfile",
  );
  assert.equal(
    await command({ "package.json": '{"packageManager": "pnpm@9.1.2+sha512.abc"}' }),
    "npm exec --yes --package=pnpm@9.1.2 -- pnpm install",
  );
  assert.equal(await command({ "package.json": '{"packageManager": "--evil@1"}' }), "npm install");
  assert.equal(await command({ "package.json": '{"packageManager": 7, "devEngines": []}' }), "npm install");
  assert.equal(
    await command({ "package.json": '{"devEngines": {"packageManager": {"name": "bun"}}}' }),
    "npm exec --yes --force --package=bun@1 -- env -u npm_config_force bun install",
  );
});

test("docs/reference/builds.md explains every reason a build can fail with, and no other", async () => {
  const page = await readFile(path.join(import.meta.dirname, "../../docs/reference/builds.md"), "utf8");
  const explained = [...page.matchAll(/^\| `([A-Z]\w+)` \|/gm)].map((match) => match[1]);
  assert.deepEqual(explained, [...buildFailureReasons]);
});
