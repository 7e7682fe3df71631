import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { pythonLaunch } from "../../../src/compute/process/langgraph/langgraph-python-launch.ts";

async function launch(
  config: object,
  files: Record<string, string> = {},
  configPath = "apps/a/langgraph.json",
  environmentDir = "/env",
) {
  const artifactDir = await mkdtemp(path.join(tmpdir(), "pierhead-launch-"));
  try {
    for (const [name, text] of Object.entries({ ...files, [configPath]: JSON.stringify(config) })) {
      await mkdir(path.dirname(path.join(artifactDir, name)), { recursive: true });
      await writeFile(path.join(artifactDir, name), text);
    }
    const start = {
      runner: "langgraph-python",
      environment_dir: environmentDir,
      packages_dir: ".p",
      config_path: configPath,
    } as const;
    const { options, env } = pythonLaunch(artifactDir, start);
    const text = JSON.stringify(options).replaceAll(artifactDir, "/artifact");
    return { options: JSON.parse(text) as typeof options, env };
  } finally {
    await rm(artifactDir, { recursive: true });
  }
}

test("the server gets the path of every file, and module names stay module names", async () => {
  const { options } = await launch(
    {
      dependencies: [".", "../shared", "requests"],
      graphs: { one: "./one.py:graph", two: { path: "two.py:graph", description: "x" }, three: "pack.three:graph" },
      auth: { path: "./auth.py:auth", disable_studio_auth: true },
      http: { app: "../shared/app.py:app", cors: {} },
      store: { index: { dims: 3 } },
      priority: { path: "./priority.py:order" },
    },
    { "apps/a/two.py": "", "apps/shared/__init__.py": "" },
  );
  const settings = Object.entries(options.serverEnvironment).filter(([name]) => name.startsWith("LANG"));
  const variables = Object.fromEntries(
    settings.map(([name, text]) => [name, text.startsWith("{") ? JSON.parse(text) : text]),
  );
  assert.deepEqual(variables, {
    LANGSERVE_GRAPHS: {
      one: "/artifact/apps/a/one.py:graph",
      two: { path: "/artifact/apps/a/two.py:graph", description: "x" },
      three: "pack.three:graph",
    },
    LANGGRAPH_AUTH: { path: "/artifact/apps/a/auth.py:auth", disable_studio_auth: true },
    LANGGRAPH_HTTP: { app: "/artifact/apps/shared/app.py:app", cors: {} },
    LANGGRAPH_STORE: { index: { dims: 3 } },
    LANGGRAPH_PRIORITY: { path: "/artifact/apps/a/priority.py:order" },
    LANGGRAPH_RUNTIME_EDITION: "inmem",
  });
  assert.deepEqual(options.directory, ["apps", "a"]);
  assert.deepEqual(options.importDirs, ["/artifact/apps/a", "/artifact/apps/shared", "/artifact/apps"]);
  assert.equal(options.packagesDir, "/artifact/.p");
});

test("a directory with the name of an installed package does not hide the package", async () => {
  const environmentDir = await mkdtemp(path.join(tmpdir(), "pierhead-environment-"));
  try {
    await mkdir(path.join(environmentDir, "lib/python3.12/site-packages/langgraph"), { recursive: true });
    const config = { dependencies: [".", "../../libs/words"], graphs: { one: "./one.py:graph" } };
    const files = { "apps/langgraph/__init__.py": "", "libs/words/__init__.py": "" };
    const { options } = await launch(config, files, "apps/langgraph/langgraph.json", environmentDir);
    assert.deepEqual(options.importDirs, ["/artifact/apps/langgraph", "/artifact/libs/words", "/artifact/libs"]);
  } finally {
    await rm(environmentDir, { recursive: true });
  }
});

test("variables come from the configuration or its file, and the health check uses a path without credentials", async () => {
  const graphs = { a: "./a.py:g" };
  const listed = await launch({ graphs, env: { A: 1, B: "two" } });
  assert.deepEqual([listed.env["A"], listed.env["B"], listed.env["VIRTUAL_ENV"]], ["1", "two", "/env"]);
  const filed = await launch({ graphs, env: "./.env" }, { "apps/a/.env": 'A="one two"\n# no\nexport B=3\n' });
  assert.deepEqual([filed.env["A"], filed.env["B"]], ["one two", "3"]);
  assert.equal((await launch({ graphs, env: "./.env" })).env["A"], undefined);
  assert.equal((await launch({ graphs, env: ["A"] })).env["A"], undefined);
  assert.equal(listed.options.healthPath, "/ok");
  assert.equal((await launch({ graphs, http: { disable_meta: true } })).options.healthPath, null);
  assert.deepEqual((await launch({ graphs }, {}, "langgraph.json")).options.directory, []);
});

test("an env file that links out of the source is not read, because it may belong to another user or to this server", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-launch-"));
  const source = path.join(directory, "source");
  const config = JSON.stringify({ graphs: { a: "./a.py:g" }, env: "./.env" });
  const start = { runner: "langgraph-python", environment_dir: "/env", packages_dir: ".p" } as const;
  const variables = async (link: string) => {
    await mkdir(path.join(source, "shared"), { recursive: true });
    await writeFile(path.join(source, "langgraph.json"), config);
    await writeFile(path.join(source, "shared/.env"), "A=own\n");
    await symlink(link, path.join(source, ".env"));
    const { env } = pythonLaunch(source, { ...start, config_path: "langgraph.json" });
    await rm(source, { recursive: true });
    return env;
  };
  try {
    await writeFile(path.join(directory, "operator.env"), "A=secret\n");
    assert.equal((await variables("shared/.env"))["A"], "own");
    assert.equal((await variables("../operator.env"))["A"], undefined);
    assert.equal((await variables(path.join(directory, "operator.env")))["A"], undefined);
    assert.deepEqual(await variables("/proc/self/environ"), await variables("nowhere"));
  } finally {
    await rm(directory, { recursive: true });
  }
});
