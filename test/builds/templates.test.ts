import assert from "node:assert/strict";
import { cp, readFile, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { readProject } from "../../src/builds/detect/project.ts";
import { findTemplate, listTemplates, templatesDirectory } from "../../src/builds/sources/templates.ts";
import { begin, scratch, writeFiles } from "./fixtures.ts";

const root = path.join(import.meta.dirname, "../..");

test("ships only templates that can be built", async () => {
  const templates = await listTemplates();
  assert.deepEqual(
    templates.map(({ id }) => id),
    ["langgraph-js-chat", "langgraph-js-hello", "langgraph-python-hello", "node-server"],
  );
  for (const { id, name, description, directory, configPath, digest } of templates) {
    assert.ok(name.length > 0 && description.length > 0, id);
    assert.match(digest, /^sha256:[0-9a-f]{64}$/);
    assert.deepEqual((await readProject(directory, configPath, { nodeMajor: 24, target: "directory" })).warnings, []);
  }
});

test("finds a template only by its id, never by a path", async () => {
  assert.equal((await findTemplate(templatesDirectory, "node-server"))?.id, "node-server");
  for (const id of ["none", "", ".", "..", "../templates/node-server", "node-server/", "/etc", "Node-Server", "a\0b"]) {
    assert.equal(await findTemplate(templatesDirectory, id), undefined);
  }
});

test("changes the digest of a template with its content, but not with files from local runs", async () => {
  await using place = await scratch();
  await cp(path.join(templatesDirectory, "node-server"), path.join(place.dir, "node-server"), { recursive: true });
  const digest = async () => (await findTemplate(place.dir, "node-server"))?.digest;
  const before = await digest();
  assert.equal(before, (await findTemplate(templatesDirectory, "node-server"))?.digest);
  await writeFiles(path.join(place.dir, "node-server"), { "node_modules/x/index.js": "", ".env": "A=b" });
  assert.equal(await digest(), before);
  await writeFile(path.join(place.dir, "node-server/server.js"), "changed");
  assert.notEqual(await digest(), before);
});

test("copies the targets of a template's links", async () => {
  await using place = await scratch();
  const template = { id: "linked", name: "Linked", description: "-", config_path: "pierhead.json" };
  await writeFiles(place.dir, {
    "common/pierhead.json": JSON.stringify({ start: ["node", "src/server.js"] }),
    "common/src/server.js": "// 1",
    "templates/linked/template.json": JSON.stringify(template),
  });
  await symlink("../../common/pierhead.json", path.join(place.dir, "templates/linked/pierhead.json"));
  await symlink("../../common/src", path.join(place.dir, "templates/linked/src"));
  const found = await findTemplate(path.join(place.dir, "templates"), "linked");
  assert.ok(found !== undefined);
  const { build, log } = begin(place.dir, { kind: "template", directory: found.directory, digest: found.digest });
  const result = await build.result;
  assert.ok(result.ok && result.artifact.kind === "directory", log());
  await writeFile(path.join(place.dir, "common/src/server.js"), "// 2");
  assert.equal(await readFile(path.join(result.artifact.path, "src/server.js"), "utf8"), "// 1");
  assert.notEqual((await findTemplate(path.join(place.dir, "templates"), "linked"))?.digest, found.digest);
});

test("ships lock files without download URLs", async () => {
  const locks = [
    "templates/langgraph-js-chat",
    "templates/langgraph-js-hello",
    "templates/node-server",
    "examples/account-agent",
    "examples/hello-agent",
  ].map((dir) => `${dir}/package-lock.json`);
  for (const file of [...locks, "src/builds/toolchains/langgraph-js-1.5.1.package-lock.json"]) {
    const text = await readFile(path.join(root, file), "utf8");
    assert.ok(!text.includes(`"resolved"`), file);
  }
});
