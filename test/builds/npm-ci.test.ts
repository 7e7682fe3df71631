import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, readdir, readFile, utimes } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { planInstall } from "../../src/builds/image/commands.ts";
import { begin, type Files, filesSource, scratch, writeFiles } from "./fixtures.ts";
import { gzippedTar } from "./tar-fixture.ts";

/** Serves the package `part` in every version. @returns the server's address. */
async function packageHost(context: TestContext): Promise<string> {
  const server = createServer(({ url = "" }, response) => {
    const version = path.basename(url, ".tgz");
    const content = JSON.stringify({ name: "part", version });
    response.end(gzippedTar([{ name: "package/package.json", content }]));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const manifest = { name: "plain", dependencies: { part: "*" } };

const lockOf = (origin: string, version: string) =>
  JSON.stringify({
    name: "plain",
    lockfileVersion: 3,
    packages: {
      "": manifest,
      "node_modules/part": { version, resolved: `${origin}/${version}.tgz` },
    },
  });

/** npm prefers npm-shrinkwrap.json to package-lock.json. */
const filesOf = (origin: string, version: string): Files => ({
  "package.json": JSON.stringify(manifest),
  "npm-shrinkwrap.json": lockOf(origin, version),
  "package-lock.json": lockOf(origin, "1.0.0"),
});

test("copies the result of npm ci only for an equal npm-shrinkwrap.json", async (context) => {
  const origin = await packageHost(context);
  await using place = await scratch();
  const build = async (key: string, version: string) => {
    const files = { ...filesOf(origin, version), "pierhead.json": JSON.stringify({ start: ["node", "server.js"] }) };
    const source = await filesSource(path.join(place.dir, key), files);
    const { build, log } = begin(place.dir, source, { installCommand: "npm ci" });
    const result = await build.result;
    assert.ok(result.ok && result.artifact.kind === "directory", log());
    const installed = path.join(result.artifact.path, "node_modules/part/package.json");
    return { log: log(), version: JSON.parse(await readFile(installed, "utf8")).version };
  };
  assert.equal((await build("first", "2.0.0")).version, "2.0.0");
  assert.equal((await build("second", "3.0.0")).version, "3.0.0");
  const third = await build("third", "3.0.0");
  assert.equal(third.version, "3.0.0");
  assert.match(third.log, /copied node_modules from an earlier build/);
});

test("removes old unfinished copies of killed builds, but not recent ones", async (context) => {
  const origin = await packageHost(context);
  await using place = await scratch();
  const keptDir = path.join(place.dir, "cache/dependencies");
  const [left, current] = ["left.unfinished-1", "current.unfinished-2"];
  for (const name of [left, current]) await mkdir(path.join(keptDir, name, "part"), { recursive: true });
  const twoHoursAgo = new Date(Date.now() - 7_200_000);
  await utimes(path.join(keptDir, left), twoHoursAgo, twoHoursAgo);
  const files = { ...filesOf(origin, "2.0.0"), "pierhead.json": JSON.stringify({ start: ["node", "server.js"] }) };
  const source = await filesSource(path.join(place.dir, "source"), files);
  const { build, log } = begin(place.dir, source, { installCommand: "npm ci" });
  assert.ok((await build.result).ok, log());
  const found = await readdir(keptDir);
  assert.deepEqual(
    found.filter((name) => name.includes(".")),
    [current],
  );
  assert.equal(found.length, 2, "the recent copy and the one that this build saved remain");
});

test("copies npm-shrinkwrap.json into an image before npm installs", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, filesOf("http://127.0.0.1", "2.0.0"));
  const project = { kind: "langgraph-js", directory: "." } as unknown as Parameters<typeof planInstall>[2];
  const request = { installCommand: null, buildCommand: null } as Parameters<typeof planInstall>[0];
  const { manifests } = await planInstall(request, place.dir, project);
  assert.deepEqual(manifests, ["package.json", "npm-shrinkwrap.json", "package-lock.json"]);
});
