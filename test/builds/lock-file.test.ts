import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { findFailedScript } from "../../src/builds/node/install-scripts.ts";
import { withoutNames, withoutPackage } from "../../src/builds/node/lock-file.ts";
import { narrowWorkspace } from "../../src/builds/node/narrow-workspace.ts";
import { scratch, writeFiles } from "./fixtures.ts";

const gone = { name: "@x/gone", version: "1.2.3" };

test("removes one version of a package from a lock file of npm, Yarn and pnpm, and keeps the rest", () => {
  const npm = { version: "1.2.3" };
  const packages = { "": {}, "node_modules/@x/gone": npm, "node_modules/a/node_modules/@x/gone": { version: "1.2.4" } };
  const edited = JSON.parse(withoutPackage("package-lock.json", JSON.stringify({ packages }), gone) ?? "") as object;
  assert.deepEqual(edited, {
    packages: { "": {}, "node_modules/a/node_modules/@x/gone": { version: "1.2.4" } },
  });

  const yarn1 =
    '# yarn lockfile v1\n\n\n"@x/gone@^1.0.0", "@x/gone@^1.2.0":\n  version "1.2.3"\n\na@^1.2.0:\n  version "1.2.3"\n';
  assert.equal(withoutPackage("yarn.lock", yarn1, gone), '# yarn lockfile v1\n\na@^1.2.0:\n  version "1.2.3"\n');
  const berry =
    '__metadata:\n  version: 8\n\n"@x/gone@npm:^1.0.0":\n  version: 1.2.3\n\n"@x/gone@npm:^2":\n  version: 2.0.0\n';
  assert.equal(
    withoutPackage("yarn.lock", berry, gone),
    '__metadata:\n  version: 8\n\n"@x/gone@npm:^2":\n  version: 2.0.0\n',
  );

  const pnpm = `importers:
  .:
    dependencies:
      '@x/gone':
        specifier: ^1.0.0
        version: 1.2.3(react@18.0.0)
      a:
        specifier: ^1.0.0
        version: 1.2.3
packages:
  '@x/gone@1.2.3':
    resolution: {integrity: sha512-x}
  '@x/gone@1.2.4':
    resolution: {integrity: sha512-y}
snapshots:
  '@x/gone@1.2.3(react@18.0.0)':
    dependencies:
      react: 18.0.0
  a@1.2.3: {}
`;
  assert.equal(
    withoutPackage("pnpm-lock.yaml", pnpm, gone),
    `importers:
  .:
    dependencies:
      a:
        specifier: ^1.0.0
        version: 1.2.3
packages:
  '@x/gone@1.2.4':
    resolution: {integrity: sha512-y}
snapshots:
  a@1.2.3: {}
`,
  );
  assert.equal(withoutPackage("yarn.lock", berry, { ...gone, version: "9.9.9" }), null);
  assert.equal(withoutPackage("bun.lock", '"@x/gone": ["@x/gone@1.2.3", "", {}],', gone), null);
});

test("removes all versions of some packages from a lock file of Yarn", () => {
  const block = (key: string) => `${key}:\n  version "1.2.3"\n  dependencies:\n    "@x/core" "^1"\n`;
  const kept = `# yarn lockfile v1\n\n\n${block("react@^18")}`;
  const text = `${kept}\n${block('"@x/core@>0.2.0 <0.3.0", "@x/core@^0.2.31"')}\n${block('"@x/core@^1"')}`;
  assert.equal(withoutNames(text, ["@x/core", "other"]), kept.trimEnd());
  assert.equal(withoutNames(text, ["@x/co", "react-dom"]), text);
});

test("reduces a workspace to what one member and the root need", async () => {
  await using place = await scratch();
  const member = (name: string, dependencies: Record<string, string> = {}) => JSON.stringify({ name, dependencies });
  await writeFiles(place.dir, {
    "package.json": JSON.stringify({ workspaces: ["apps/*", "packages/**"], devDependencies: { tools: "*" } }),
    "pnpm-workspace.yaml": "packages:\n  - apps/*\n  - packages/**\n\ncatalog:\n  zod: ^4\n",
    "apps/agent/package.json": member("agent", { shared: "workspace:*" }),
    "apps/web/package.json": member("web", { missing: "1.0.0" }),
    "packages/shared/package.json": member("shared", { base: "workspace:*" }),
    "packages/deep/base/package.json": member("base"),
    "packages/tools/package.json": member("tools"),
  });
  assert.deepEqual(await narrowWorkspace(place.dir, ".", "apps/agent"), ["apps/web"]);
  const kept = ["apps/agent", "packages/deep/base", "packages/shared", "packages/tools"];
  const manifest = JSON.parse(await readFile(path.join(place.dir, "package.json"), "utf8")) as object;
  assert.deepEqual(manifest, { workspaces: kept, devDependencies: { tools: "*" } });
  assert.equal(
    await readFile(path.join(place.dir, "pnpm-workspace.yaml"), "utf8"),
    `packages:\n${kept.map((name) => `  - "${name}"\n`).join("")}catalog:\n  zod: ^4\n`,
  );
  assert.deepEqual(await narrowWorkspace(place.dir, ".", "apps/agent"), []);
  assert.deepEqual(await narrowWorkspace(place.dir, ".", "elsewhere"), []);
});

test("finds the package whose installation script failed", () => {
  const npm = ["npm error code 1", "npm error path /b/source/node_modules/@x/sharp", "npm error command failed"];
  assert.equal(findFailedScript(npm), "@x/sharp");
  assert.equal(findFailedScript(["error /b/source/node_modules/sharp: Command failed."]), "sharp");
  assert.equal(findFailedScript(["npm error path /b/source", "npm error command failed"]), null);
  assert.equal(findFailedScript(["npm error path /b/node_modules/x", "npm error code ENOENT"]), null);
});
