import assert from "node:assert/strict";
import { readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { execa } from "execa";
import { expectedVariables } from "../../src/builds/detect/expected-variables.ts";
import { readProject } from "../../src/builds/detect/project.ts";
import { projectReader } from "../../src/builds/detect/project-reader.ts";
import { readVariables } from "../../src/builds/detect/read-variables.ts";
import { parseStartLine } from "../../src/builds/detect/start-line.ts";
import { installCommand, withManager } from "../../src/builds/node/install-command.ts";
import { findGonePackage, isLockStale } from "../../src/builds/node/install-packages.ts";
import { launchLine } from "../../src/builds/node/launch-line.ts";
import { narrowWorkspace } from "../../src/builds/node/narrow-workspace.ts";
import { scriptCommand, startCommand } from "../../src/builds/node/run-script.ts";
import { poetryRequirements } from "../../src/builds/python/poetry.ts";
import { type Files, scratch, writeFiles } from "./fixtures.ts";

const host = { nodeMajor: 24, target: "directory" } as const;

async function read(files: Files, configPath: string | null = null, target: "directory" | "image" = "directory") {
  await using place = await scratch();
  await writeFiles(place.dir, files);
  return await readProject(place.dir, configPath, { ...host, target });
}

const fastapi = { "requirements.txt": "fastapi\n", "main.py": "app = FastAPI()\n" };

test("builds a recognized server without a configuration file", async () => {
  assert.deepEqual(await read({ ...fastapi, ".python-version": "3.12\n" }), {
    kind: "command",
    configPath: "requirements.txt",
    directory: ".",
    install: "python",
    python: { version: null, requirements: null, adds: ["uvicorn"] },
    build: [],
    start: ["python", "-m", "uvicorn", "main:app", "--host", "$HOST", "--port", "$PORT"],
    healthPath: "",
    isExclusive: false,
    recognized: { name: "FastAPI", because: "fastapi in requirements.txt, app in main.py" },
    warnings: [],
  });
});

test("recognizes a server in the directory of the file that the configuration path names", async () => {
  const files = {
    "package.json": JSON.stringify({ workspaces: ["apps/*"] }),
    "apps/api/requirements.txt": "flask",
    "apps/api/web.py": "app = Flask(__name__)",
  };
  const project = await read(files, "apps/api/requirements.txt");
  assert.deepEqual(project.kind === "command" && [project.directory, project.start[3]], ["apps/api", "web:app"]);
  await assert.rejects(read(files, "apps/web/package.json"), {
    reason: "ConfigMissing",
    message: /^apps\/web\/package.json not found/,
  });
});

test("uses a Dockerfile only where a container engine builds images", async () => {
  const files = { ...fastapi, Dockerfile: "FROM x" };
  assert.equal((await read(files, null, "image")).kind, "dockerfile");
  assert.equal((await read(files, null, "directory")).kind, "command");
  assert.equal((await read({ Dockerfile: "FROM x" })).kind, "dockerfile");
  const deno = { "deno.json": "{}", "main.ts": "Deno.serve(handle)", Dockerfile: "FROM x" };
  assert.equal((await read(deno, null, "image")).kind, "dockerfile");
  assert.equal((await read(deno)).kind, "command");
  const nested = await read({ "apps/api/Dockerfile": "FROM x" }, "apps/api/Dockerfile", "image");
  assert.deepEqual(nested.kind === "dockerfile" && nested.dockerfile, "apps/api/Dockerfile");
});

test("names the configurations of a monorepo instead of starting its root", async () => {
  const files = {
    "package.json": JSON.stringify({ workspaces: ["apps/*"], scripts: { start: "turbo start" } }),
    "apps/agent/langgraph.json": "{}",
  };
  await assert.rejects(read(files), {
    reason: "ConfigMissing",
    message: /Use --config apps\/agent\/langgraph\.json\./,
  });
});

test("says what is missing in a project without a server", async () => {
  await assert.rejects(read({ "requirements.txt": "requests" }), {
    reason: "ConfigMissing",
    message: /no program that serves HTTP.*pierhead\.json with the start command/,
  });
  await assert.rejects(read({ "requirements.txt": "crewai" }), {
    reason: "ConfigMissing",
    message: /no program that serves HTTP.*runs the crew for a request, for example with FastAPI\.$/,
  });
});

test("does not read a source file that links out of the source", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, { "secret.py": "app = FastAPI()", "source/requirements.txt": "fastapi" });
  await symlink("../secret.py", path.join(place.dir, "source/main.py"));
  await assert.rejects(readProject(path.join(place.dir, "source"), null, host), { reason: "ConfigMissing" });
});

test("splits a start command without a shell and keeps the variables of the address", () => {
  const parse = (text: string) => parseStartLine(text, { cwd: ".", what: "web command" }).argv;
  assert.deepEqual(parse("gunicorn a:app -b 0.0.0.0:${PORT:-8000}"), ["gunicorn", "a:app", "-b", "0.0.0.0:$PORT"]);
  assert.deepEqual(parse('exec node server.js --url "$PUBLIC_URL/x" --port=$PORT'), [
    "node",
    "server.js",
    "--url",
    "$PUBLIC_URL/x",
    "--port=$PORT",
  ]);
  assert.deepEqual(parse("NODE_ENV=production node x.js"), ["env", "NODE_ENV=production", "node", "x.js"]);
  for (const wrong of ["a $HOME", "a | b", "a $PORTAL", "", "a `id`"])
    assert.throws(() => parse(wrong), { reason: "CommandInvalid" });
});

test("starts a script of package.json without a package manager where it can", async () => {
  await using place = await scratch();
  const scripts = {
    start: "next start",
    server: "NODE_ENV=production tsx src/x.ts",
    env: "node --env-file=.env x.js",
    shell: "node x.js | tee log",
    two: "node a.js && node b.js",
    other: "npm run server",
    hooked: "node x.js",
    prehooked: "node y.js",
  };
  await writeFiles(place.dir, {
    "package.json": JSON.stringify({ workspaces: ["apps/*"] }),
    "node_modules/.bin/next": "",
    "apps/web/node_modules/.bin/tsx": "",
    "apps/web/package.json": JSON.stringify({ scripts }),
  });
  const start = async (name: string) =>
    (await startCommand(place.dir, "apps/web", { start: [`script:${name}`], searchPath: "" })).join(" ");
  assert.equal(await start("start"), "../../node_modules/.bin/next start");
  assert.equal(await start("server"), "env NODE_ENV=production ./node_modules/.bin/tsx src/x.ts");
  assert.equal(await start("env"), "node --env-file-if-exists=.env x.js");
  for (const name of ["shell", "two", "other", "hooked", "absent"]) assert.equal(await start(name), `npm run ${name}`);
  const plain = await startCommand(place.dir, "apps/web", { start: ["tsx", "a.ts"], searchPath: "" });
  assert.deepEqual(plain, ["./node_modules/.bin/tsx", "a.ts"]);
});

test("installs a member of a workspace from the root that has the lock file", async () => {
  const member = { "apps/agent/package.json": '{"dependencies":{"shared":"workspace:*"}}' };
  const install = async (files: Files, directory = "apps/agent") => {
    await using place = await scratch();
    await writeFiles(place.dir, { ...member, ...files });
    const found = await installCommand(place.dir, directory, "");
    return [found?.cwd, found?.argv.join(" "), found?.env];
  };
  const workspaces = JSON.stringify({ workspaces: ["apps/*"] });
  const npm = { "package.json": workspaces, "package-lock.json": "{}" };
  assert.deepEqual(await install(npm), [".", "npm ci", {}]);
  const pnpm = {
    "package.json": '{"packageManager":"pnpm@9.1.0+sha512.abc"}',
    "pnpm-workspace.yaml": "packages: [apps/*]\n",
    "pnpm-lock.yaml": "lockfileVersion: '9.0'",
  };
  assert.deepEqual(await install(pnpm), [
    ".",
    "npm exec --yes --package=pnpm@9.1.0 -- pnpm install --frozen-lockfile",
    {},
  ]);
  const berry = { "package.json": workspaces, "yarn.lock": "__metadata:\n  version: 8\n" };
  const nodeModules = { YARN_NODE_LINKER: "node-modules" };
  assert.deepEqual(await install(berry), [
    ".",
    "npm exec --yes --package=@yarnpkg/cli-dist@4 -- yarn install --immutable",
    nodeModules,
  ]);
  const bun = { "package.json": workspaces, "bun.lock": "{}" };
  assert.deepEqual(await install(bun), [".", "npm exec --yes --package=bun@1 -- bun install --frozen-lockfile", {}]);
  // A lock file of a parent that is no workspace belongs to another project.
  assert.deepEqual(await install({ "package.json": "{}", "package-lock.json": "{}" }), [
    "apps/agent",
    "npm install",
    {},
  ]);
  const own = { ...npm, "apps/agent/package-lock.json": "{}" };
  assert.deepEqual(await install(own), ["apps/agent", "npm ci", {}]);
  // A workspace without a lock file, and a directory outside its patterns.
  assert.deepEqual((await install({ "package.json": workspaces }))[0], ".");
  const others = JSON.stringify({ workspaces: { packages: ["./libs/**", "!apps/*"] } });
  assert.deepEqual((await install({ "package.json": others, "yarn.lock": "" }))[0], "apps/agent");
  const yaml = "packages:\n  - libs/*\n  # ours\n  - 'apps/*'\n\ncatalog:\n  - elsewhere/*\n";
  assert.deepEqual((await install({ "package.json": "{}", "pnpm-workspace.yaml": yaml }))[0], ".");
  // A configuration in a subdirectory of the package.
  assert.deepEqual(await install({ ...npm, "apps/agent/config/langgraph.json": "{}" }, "apps/agent/config"), [
    ".",
    "npm ci",
    {},
  ]);
  assert.deepEqual(await install({}, "elsewhere"), [undefined, undefined, undefined]);
});

test("runs the package manager of an install command that this machine lacks through npm", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, { "package.json": '{"packageManager":"pnpm@9.1.0"}', "pnpm-lock.yaml": "" });
  const run = async (...argv: string[]) =>
    (await withManager({ argv, cwd: ".", env: {} }, place.dir, "")).argv.join(" ");
  assert.equal(await run("pnpm", "install"), "npm exec --yes --package=pnpm@9.1.0 -- pnpm install");
  assert.equal(await run("yarn", "install"), "npm exec --yes --package=yarn@1 -- yarn install");
  assert.equal(await run("npm", "ci"), "npm ci");
  assert.equal(await run("make"), "make");
  await writeFiles(place.dir, { "package.json": '{"devEngines":{"packageManager":{"name":"pnpm"}}}' });
  assert.equal(
    await run("pnpm", "install"),
    "npm exec --yes --force --package=pnpm@10 -- env -u npm_config_force pnpm install",
  );
  await writeFiles(place.dir, { "package.json": '{"packageManager":"pnpm@9.1.0"}' });
  assert.deepEqual(await scriptCommand(place.dir, ".", { argv: ["script:build"], searchPath: "" }), [
    ..."npm exec --yes --package=pnpm@9.1.0 -- pnpm run build".split(" "),
  ]);
  await using other = await scratch();
  const scripts = {
    build: "NODE_ENV=production bun build.ts && pnpm run css",
    start: "node bun.js",
    http: "MODE=http bun ./dist/index.js",
  };
  await writeFiles(other.dir, { "package.json": JSON.stringify({ scripts }) });
  const script = async (name: string) =>
    (await scriptCommand(other.dir, ".", { argv: [`script:${name}`], searchPath: "" })).join(" ");
  assert.equal(await script("build"), "npm exec --yes --package=bun@1 --package=pnpm@10 -- npm run build");
  assert.equal(await script("start"), "npm run start");
  const http = await startCommand(other.dir, ".", { start: ["script:http"], searchPath: "" });
  assert.equal(http.join(" "), "npm exec --yes --package=bun@1 -- npm run http");
});

test("reads only the beginning of manifests and lock files", async () => {
  await using place = await scratch();
  const long = "#".repeat(2 * 1024 * 1024);
  await writeFiles(place.dir, { "package.json": "{}", "yarn.lock": `__metadata:\n${long}` });
  assert.deepEqual((await installCommand(place.dir, ".", ""))?.argv.slice(-2), ["install", "--immutable"]);
  const manifest = JSON.stringify({ packageManager: "pnpm@10.0.0", long });
  await writeFiles(place.dir, { "a/package.json": manifest });
  assert.equal((await installCommand(path.join(place.dir, "a"), ".", ""))?.argv[0], "npm");
});

test("converts the dependencies of Poetry to requirements", () => {
  const section = [
    'python = "^3.11"',
    'a = "^1.2.3" # pinned',
    'b = "~0.3"',
    'c = "*"',
    'd = ">=1,<2"',
    'e = "1.5"',
    'f = { version = "^0.0.3", extras = ["x", "y"] }',
    'g = { git = "https://g.invalid/g.git", rev = "abc" }',
    'h = { version = "1", optional = true }',
    'i = { path = "../i", develop = true }',
    'j = { version = "*", markers = "sys_platform == \'win32\'" }',
    'k = "^0.3"',
  ].join("\n");
  assert.deepEqual(poetryRequirements(section), [
    "a>=1.2.3,<2",
    "b>=0.3,<0.4",
    "c",
    "d>=1,<2",
    "e==1.5",
    "f[x,y]>=0.0.3,<0.0.4",
    "g @ git+https://g.invalid/g.git@abc",
    "./../i",
    "j ; sys_platform == 'win32'",
    "k>=0.3,<0.4",
  ]);
});

test("reads the Python environment of a pierhead.json", async () => {
  const python = async (value: unknown) => {
    const project = await read(
      { "a/pierhead.json": JSON.stringify({ start: ["x"], python: value }) },
      "a/pierhead.json",
    );
    return project.kind === "command" && [project.install, project.python];
  };
  const any = { version: null, requirements: null, adds: [] };
  assert.deepEqual(await python(true), ["python", any]);
  assert.deepEqual(await python(false), [null, null]);
  assert.deepEqual(await python("3.12"), ["python", { ...any, version: "3.12" }]);
  const both = { version: "3.13", requirements: "../req.txt" };
  assert.deepEqual(await python(both), ["python", { ...any, version: "3.13", requirements: "req.txt" }]);
  for (const wrong of ["3", 3, { colour: 1 }, { version: "2.7" }, { requirements: "../../x" }, []])
    await assert.rejects(python(wrong), { reason: "ConfigInvalid", message: /python/ });
});

test("notes an env file outside the source instead of refusing the project", async () => {
  const config = { graphs: { agent: "./a.ts:graph" }, env: "../.env" };
  const { warnings } = await read({ "langgraph.json": JSON.stringify(config) });
  assert.match(
    warnings.join(),
    /^env names '\.\.\/\.env', which is outside the source\. Set its variables on the deployment/,
  );
  const nested = await read(
    { "apps/a/langgraph.json": JSON.stringify({ ...config, env: "../../.env" }) },
    "apps/a/langgraph.json",
  );
  assert.deepEqual(nested.warnings, []);
});

test("reads the variables that a project expects from its example file", async () => {
  await using place = await scratch();
  const text = "# keys\nOPENAI_API_KEY=\nexport MODEL=x\n#OLD=1\nOPENAI_API_KEY=again\n";
  await writeFiles(place.dir, { ".env.example": text, "apps/a/x.txt": "" });
  const examples = { OPENAI_API_KEY: "", MODEL: "x" };
  const expected = { file: ".env.example", names: ["OPENAI_API_KEY", "MODEL"], examples };
  assert.deepEqual(await expectedVariables(place.dir, "apps/a"), expected);
  await writeFiles(place.dir, { "apps/a/example.env": "B=1" });
  assert.deepEqual(await expectedVariables(place.dir, "apps/a"), {
    file: "apps/a/example.env",
    names: ["B"],
    examples: { B: "1" },
  });
});

test("finds the variables that the sources read and have no default for", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, {
    "agent.py": `a = os.environ["MODEL"]; b = os.getenv("SHOP_API_KEY"); c = os.getenv("DB_URL", "sqlite://"); d = os.environ.get("MODE")`,
    "web.ts": `const a = process.env.ORDERS_URL; const b = process.env.CACHE_URL ?? "x"; const c = process.env.REGION!;`,
    "db.py": `host = getenv("DB_HOST"); port = getenv("DB_PORT", "5432"); kind = getenv("SHOP_KIND")`,
    "tests/x.py": `os.environ["FROM_A_TEST"]`,
  });
  assert.deepEqual(await readVariables(projectReader(place.dir, ".")), [
    "MODEL",
    "REGION",
    "SHOP_API_KEY",
    "DB_HOST",
    "ORDERS_URL",
  ]);
});

test("runs a web command that changes the directory, or prepares the server first", async () => {
  const start = async (web: string) => {
    const project = await read({ ...fastapi, Procfile: `web: ${web}\n`, "api/main.py": "" });
    return project.kind === "command" && { argv: project.start, directory: project.startDirectory };
  };
  assert.deepEqual(await start("cd api && uvicorn main:app --port $PORT"), {
    argv: ["uvicorn", "main:app", "--port", "$PORT"],
    directory: "api",
  });
  assert.deepEqual(await start("alembic upgrade head && cd api && A='b c' uvicorn main:app --port ${PORT:-8000}"), {
    argv: ["sh", "-c", "alembic upgrade head && cd api && exec env 'A=b c' uvicorn main:app --port '$PORT'"],
    directory: undefined,
  });
});

test("recognizes the server when the usual configuration path does not exist", async () => {
  const project = await read(fastapi, "langgraph.json");
  assert.equal(project.kind === "command" && project.recognized?.name, "FastAPI");
  await assert.rejects(read(fastapi, "agents/langgraph.json"), { reason: "ConfigMissing" });
});

test("recognizes that a registry does not have a version of a lock file", () => {
  const url = "https://registry.example/@x/cli/-/cli-0.0.58.tgz";
  const gone = { name: "@x/cli", version: "0.0.58" };
  const forms: [string, typeof gone | null][] = [
    [`error Error: ${url}: Request failed "404 Not Found"`, gone],
    [`npm error 404 Not Found - GET ${url} - Not found`, gone],
    [` ERR_PNPM_FETCH_404  GET ${url}: Not Found - 404`, gone],
    [`error: GET ${url} - 404`, gone],
    ["error: GET https://registry.example/@x%2fcli/-/cli-0.0.58.tgz - 404", gone],
    ["npm error notarget No matching version found for @x/cli@0.0.58.", gone],
    [" ERR_PNPM_FETCH_404  GET https://registry.example/@x%2Fcli: Not Found - 404", { ...gone, version: "unknown" }],
    [`error Couldn't find any versions for "@x/cli" that matches "0.0.58"`, gone],
    [
      " ERR_PNPM_NO_VERSIONS  No versions available for @x/cli. It may be unpublished.",
      { ...gone, version: "unknown" },
    ],
    [`npm error code EINTEGRITY ${url}`, null],
    ["GET https://registry.example/app returned 404", null],
    ["➤ YN0082: │ @x/cli@npm:^0.0.21: No candidates found", { name: "@x/cli", version: "^0.0.21" }],
  ];
  for (const [line, found] of forms) assert.deepEqual(findGonePackage(["Resolving", line]), found, line);
  const ofYarn = "➤ YN0035: │ @ai-sdk/rsc@npm:3.0.68: The remote server failed to provide the requested resource";
  assert.deepEqual(findGonePackage([ofYarn, "➤ YN0035: │   Response Code: 404 (Not Found)"]), {
    name: "@ai-sdk/rsc",
    version: "3.0.68",
  });
  assert.equal(findGonePackage([ofYarn, "➤ YN0035: │   Response Code: 502 (Bad Gateway)"]), null);
});

test("recognizes a lock file that lags far behind, and reads hostile output of an installation quickly", () => {
  const missing = Array.from({ length: 100 }, (_, index) => `npm error Missing: p${index}@1.0.0 from lock file`);
  assert.equal(isLockStale(missing), true);
  assert.equal(isLockStale(["npm error code ERESOLVE"]), false);
  const beganAt = performance.now();
  assert.equal(findGonePackage(Array.from({ length: 100 }, () => ".tgz ".repeat(13_000))), null);
  assert.ok(performance.now() - beganAt < 20_000);
});

test("stops the old revision first where a server has a port of its own, but not in a container", async () => {
  const files = {
    "requirements.txt": "a2a-sdk",
    "run.py": 'if __name__ == "__main__":\n  uvicorn.run(app, port=9999)',
  };
  const project = await read(files);
  assert.deepEqual(project.kind === "command" && project.isExclusive, true);
  assert.match(project.warnings.join(), /does not read PORT.*old revision stops before/);
  const image = await read(files, null, "image");
  assert.deepEqual(image.kind === "command" && [image.isExclusive, image.warnings], [false, []]);
  const root = JSON.stringify({ workspaces: ["apps/*"] });
  const member = {
    "apps/api/package.json": '{"scripts":{"start":"node index.js"}}',
    "apps/api/index.js": "a.listen(1)",
  };
  const inWorkspace = await read({ "package.json": root, ...member }, "apps/api/package.json");
  assert.equal(inWorkspace.kind === "command" && inWorkspace.isExclusive, false, "another package may read PORT");
  const alone = await read(member, "apps/api/package.json");
  assert.deepEqual(alone.kind === "command" && [alone.isExclusive, alone.opensGivenPort], [false, true]);
  assert.match(alone.warnings.join(), /Nothing in the server reads PORT.*becomes the one in PORT/);
  const bun = { "apps/api/package.json": '{"scripts":{"start":"bun index.ts"}}', "apps/api/index.ts": "a.listen(1)" };
  const inBun = await read(bun, "apps/api/package.json");
  assert.deepEqual(inBun.kind === "command" && [inBun.isExclusive, inBun.opensGivenPort], [true, undefined]);
});

test("leaves the patches of other members out when it narrows a workspace of pnpm", async () => {
  await using place = await scratch();
  const patched = { patchedDependencies: { "left@1.0.0": "patches/left.patch" } };
  await writeFiles(place.dir, {
    "package.json": JSON.stringify({ private: true, workspaces: ["apps/*"], pnpm: patched }),
    "pnpm-workspace.yaml": "packages:\n  - apps/*\npatchedDependencies:\n  left@1.0.0: patches/left.patch\n",
    "apps/one/package.json": '{"name":"one"}',
    "apps/two/package.json": '{"name":"two"}',
  });
  assert.deepEqual(await narrowWorkspace(place.dir, ".", "apps/one"), ["apps/two"]);
  const read = (name: string) => readFile(path.join(place.dir, name), "utf8");
  assert.match(await read("pnpm-workspace.yaml"), /^allowUnusedPatches: true$/m);
  const manifest = JSON.parse(await read("package.json"));
  assert.equal(manifest.pnpm.allowUnusedPatches, true);
  assert.deepEqual(manifest.workspaces, ["apps/one"]);
});

test("runs what precedes a server in a shell that the server replaces", async () => {
  const argv = [process.execPath, "-e", "console.log(process.env.A, process.env.B, process.argv[1])", "two words"];
  const before = [[process.execPath, "-e", "console.log('first')"]];
  const [program = "", ...rest] = launchLine(argv, { variables: { A: "default", B: "http" }, before, programs: null });
  const { stdout } = await execa(program, rest, { env: { A: "own" } });
  assert.equal(stdout, "first\nown http two words");
  assert.deepEqual(launchLine(argv, { variables: {}, before: [], programs: null }), argv);
});
