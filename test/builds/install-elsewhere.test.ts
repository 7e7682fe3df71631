import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, readFile, stat, symlink } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { needsRepository } from "../../src/builds/node/git-hooks.ts";
import { listedIn } from "../../src/builds/node/install-scripts.ts";
import { unreachableHosts, withoutAddresses } from "../../src/builds/node/lock-addresses.ts";
import { findProgram } from "../../src/builds/worker/environment.ts";
import { scratch, writeFiles } from "./fixtures.ts";

const program = fileURLToPath(new URL("../../src/builds/image/project-steps.ts", import.meta.url));
// `npm run` tells programs below it where its own package is. No build has that.
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_")));

const install = (cwd: string, env: NodeJS.ProcessEnv = environment) =>
  execa(process.execPath, [program, "install", "."], { cwd, env, extendEnv: false, all: true, reject: false });

/** Serves one package, as a registry does. */
async function registryWith(archive: Buffer): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    const tarball = `http://${request.headers.host}/greeting/-/greeting-1.0.0.tgz`;
    if (request.url === "/greeting/-/greeting-1.0.0.tgz") response.end(archive);
    else
      response.end(
        JSON.stringify({
          name: "greeting",
          "dist-tags": { latest: "1.0.0" },
          versions: { "1.0.0": { name: "greeting", version: "1.0.0", dist: { tarball } } },
        }),
      );
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.close();
    await once(server, "close");
  };
  return { url: `http://127.0.0.1:${port}`, close };
}

test("installs the versions of a lock file that names an unreachable registry from its own one", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, {
    "made/package/package.json": JSON.stringify({ name: "greeting", version: "1.0.0" }),
  });
  await execa("tar", ["-czf", "greeting.tgz", "-C", "made", "package"], { cwd: place.dir });
  const archive = await readFile(path.join(place.dir, "greeting.tgz"));
  const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
  const closed = await registryWith(archive);
  await closed.close();
  const registry = await registryWith(archive);
  const locked = (checksum: string) => ({
    "package.json": JSON.stringify({ name: "agent", version: "1.0.0", dependencies: { greeting: "1.0.0" } }),
    ".npmrc": `registry=${registry.url}/\nfetch-retries=0\naudit=false\ncache=./cache\n`,
    "package-lock.json": JSON.stringify({
      name: "agent",
      version: "1.0.0",
      lockfileVersion: 3,
      packages: {
        "": { name: "agent", version: "1.0.0", dependencies: { greeting: "1.0.0" } },
        "node_modules/greeting": {
          version: "1.0.0",
          resolved: `${closed.url}/company/npm/greeting/1.0.0/greeting-1.0.0.tgz`,
          integrity: checksum,
        },
      },
    }),
  });
  const agent = path.join(place.dir, "agent");
  await writeFiles(agent, locked(integrity));
  const { exitCode, all = "" } = await install(agent);
  assert.equal(exitCode, 0, all);
  assert.match(all, /package-lock\.json names addresses at 127\.0\.0\.1:\d+, which this machine cannot use\./);
  assert.match(await readFile(path.join(agent, "node_modules/greeting/package.json"), "utf8"), /"1\.0\.0"/);

  const forged = path.join(place.dir, "forged");
  await writeFiles(forged, locked(`sha512-${createHash("sha512").update("other").digest("base64")}`));
  const refused = await install(forged);
  assert.notEqual(refused.exitCode, 0, "another package of the same name and version is refused");
  assert.match(refused.all ?? "", /EINTEGRITY/);
  await registry.close();
});

test("removes addresses of an unreachable registry from each form of lock file, and keeps those without a checksum", () => {
  const address = "https://npm.example.com/api/greeting/-/greeting-1.0.0.tgz";
  const without = (file: string, text: string) => withoutAddresses(file, text, ["npm.example.com"]);
  const entry = { version: "1.0.0", resolved: address, integrity: "sha512-x" };
  const npm = (one: object) => JSON.stringify({ packages: { "node_modules/greeting": one } });
  assert.deepEqual(JSON.parse(without("package-lock.json", npm(entry)) ?? ""), {
    packages: { "node_modules/greeting": { version: "1.0.0", integrity: "sha512-x" } },
  });
  assert.equal(without("package-lock.json", npm({ version: "1.0.0", resolved: address })), null);
  const archive = { ...entry, resolved: "https://npm.example.com/releases/greeting.tgz" };
  assert.equal(without("package-lock.json", npm(archive)), null, "an archive that the project names stays");
  const old = { dependencies: { greeting: { ...entry, dependencies: { greeting: entry } } } };
  assert.doesNotMatch(without("package-lock.json", JSON.stringify(old)) ?? address, /npm\.example/);

  const yarn = (checksum: string) => `greeting@^1:\n  version "1.0.0"\n  resolved "${address}#abc"\n${checksum}`;
  assert.equal(
    without("yarn.lock", yarn("  integrity sha512-x\n")),
    'greeting@^1:\n  version "1.0.0"\n  resolved "https://registry.yarnpkg.com/greeting/-/greeting-1.0.0.tgz#abc"\n  integrity sha512-x\n',
  );
  assert.equal(without("yarn.lock", yarn("")), null);
  const queried = yarn("  integrity sha512-x\n").replace(".tgz#", ".tgz?cache=0&other_urls=https%3A%2F%2Fa#");
  assert.equal(without("yarn.lock", queried), without("yarn.lock", yarn("  integrity sha512-x\n")));
  const berry = (url: string) => `"greeting@npm:^1":\n  resolution: "greeting@npm:1.0.0${url}"\n  checksum: 10c0/x\n`;
  assert.equal(without("yarn.lock", berry(`::__archiveUrl=${encodeURIComponent(address)}`)), berry(""));

  const pnpm = (more: string) => `packages:\n  greeting@1.0.0:\n    resolution: {integrity: sha512-x${more}}\n`;
  assert.equal(without("pnpm-lock.yaml", pnpm(`, tarball: ${address}`)), pnpm(""));
  const bun = (url: string) => `  "packages": {\n    "greeting": ["greeting@1.0.0", "${url}", {}, "sha512-x"],\n`;
  assert.equal(without("bun.lock", bun(address)), bun(""));
});

test("finds the registry that did not answer or wants a login, but not a public one", () => {
  const npm = "npm error request to https://npm.example.com:8443/a/-/a-1.tgz failed, reason: getaddrinfo ENOTFOUND";
  assert.deepEqual(unreachableHosts([npm, npm]), ["npm.example.com:8443"]);
  const login = "npm error 401 Unauthorized - GET https://npm.example.com/a/-/a-1.tgz";
  const yarn = 'error An unexpected error occurred: "https://npm.example.com/a/-/a-1.tgz: connect ECONNREFUSED".';
  const pnpm = "ERR_PNPM_FETCH_403  GET https://npm.example.com/a/-/a-1.tgz: Forbidden - 403";
  for (const line of [login, yarn, pnpm]) assert.deepEqual(unreachableHosts([line]), ["npm.example.com"]);
  assert.deepEqual(unreachableHosts(["error Error: getaddrinfo ENOTFOUND npm.example.com"]), ["npm.example.com"]);
  const missing = "npm error 404 Not Found - GET https://npm.example.com/a/-/a-1.tgz";
  const offline = npm.replace("npm.example.com:8443", "registry.npmjs.org");
  assert.deepEqual(unreachableHosts([missing, offline, "see https://npm.example.com/help"]), []);
});

test("names the registry whose name cannot be resolved", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, {
    "package.json": JSON.stringify({ name: "agent", dependencies: { greeting: "1.0.0" } }),
    ".npmrc": "registry=http://registry.pierhead.invalid/\naudit=false\ncache=./cache\n",
  });
  const { exitCode, all = "" } = await install(place.dir);
  assert.notEqual(exitCode, 0);
  assert.match(all, /The name registry\.pierhead\.invalid cannot be resolved \((?:ENOTFOUND|EAI_AGAIN)\)/);
});

test("waits seconds between attempts at a download, or as long as the project says", async () => {
  for (const [npmrc, expected] of [
    ["", "5000"],
    ["fetch-retry-maxtimeout=90000\n", "90000"],
  ]) {
    await using place = await scratch();
    const preinstall = "npm config get fetch-retry-maxtimeout > waits.txt";
    await writeFiles(place.dir, {
      "package.json": JSON.stringify({ name: "agent", scripts: { preinstall } }),
      ".npmrc": `audit=false\ncache=./cache\n${npmrc}`,
    });
    const { exitCode, all = "" } = await install(place.dir);
    assert.equal(exitCode, 0, all);
    assert.equal((await readFile(path.join(place.dir, "waits.txt"), "utf8")).trim(), expected);
  }
});

test("runs a script of the installation that installs git hooks, in a source that is no git repository", async () => {
  await using place = await scratch();
  const hook = "git rev-parse --git-dir && git config core.hooksPath .hooks";
  await writeFiles(place.dir, {
    "package.json": JSON.stringify({ name: "agent", scripts: { postinstall: "echo > made.txt", prepare: hook } }),
  });
  const { exitCode, all = "" } = await install(place.dir);
  assert.equal(exitCode, 0, all);
  assert.match(all, /needs a git repository, which a source does not have\. Installing again in an empty one\./);
  await assert.rejects(stat(path.join(place.dir, ".git")), "the artifact has no repository");
  await stat(path.join(place.dir, "made.txt"));
});

test("installs without git hooks on a machine without git, and still runs the other scripts", async () => {
  await using place = await scratch();
  const bin = path.join(place.dir, "bin");
  await mkdir(bin);
  for (const name of ["node", "npm", "sh", "env"])
    await symlink(findProgram(name, process.env["PATH"] ?? "") ?? "", path.join(bin, name));
  const agent = path.join(place.dir, "agent");
  const scripts = { postinstall: "node -e \"require('fs').writeFileSync('made.txt','')\"", prepare: "git init" };
  await writeFiles(agent, { "package.json": JSON.stringify({ name: "agent", scripts }) });
  const { exitCode, all = "" } = await install(agent, { ...environment, PATH: bin });
  assert.equal(exitCode, 0, all);
  assert.match(all, /Note: the script prepare needs a git repository\. The build goes on without it\./);
  await stat(path.join(agent, "made.txt"));
});

test("recognizes the programs that install git hooks by their errors", () => {
  for (const line of [
    "fatal: not a git repository (or any of the parent directories): .git",
    "[ERROR], Was not able to set git hooks. Error: Error: ENOENT: no such file or directory, mkdir '.git/hooks'",
    "Error: spawn git ENOENT",
    "sh: 1: git: not found",
  ])
    assert.equal(needsRepository([line]), true, line);
  assert.equal(needsRepository(["npm error command git --no-replace-objects ls-remote ssh://git@example.com"]), false);
});

test("reads the packages whose scripts pnpm has not run, as old and new versions write them", () => {
  assert.deepEqual(
    listedIn(
      '{\n  "layoutVersion": 5,\n  "pendingBuilds": [\n    "@x/a@1.0.0",\n    "b@2.0.0"\n  ]\n}',
      "pendingBuilds",
    ),
    ["@x/a@1.0.0", "b@2.0.0"],
  );
  const old =
    "layoutVersion: 5\npackageManager: pnpm@8.15.0\npendingBuilds:\n  - /@x/a@1.0.0\n  - '/b/2.0.0'\nprunedAt: Mon\n";
  assert.deepEqual(listedIn(old, "pendingBuilds"), ["/@x/a@1.0.0", "/b/2.0.0"]);
  assert.deepEqual(listedIn("pendingBuilds: []\nskipped:\n  - /c@1.0.0\n", "pendingBuilds"), []);
  assert.deepEqual(listedIn("", "pendingBuilds"), []);
});

test("generates the client of Prisma whose installation script pnpm does not run", async () => {
  await using place = await scratch();
  const script = 'require("node:fs").writeFileSync("generated", process.argv.slice(2).join(" "))';
  await writeFiles(place.dir, {
    "client/package/package.json":
      '{"name": "@prisma/client", "version": "6.0.0", "scripts": {"postinstall": "node -e 0"}}',
    "prisma/package/package.json": '{"name": "prisma", "version": "6.0.0", "bin": "prisma.js"}',
    "prisma/package/prisma.js": `#!/usr/bin/env node\n${script}\n`,
  });
  const projectWith = async (name: string, scripts: object) => {
    const agent = path.join(place.dir, name);
    const dependencies = { "@prisma/client": "file:client.tgz", prisma: "file:prisma.tgz" };
    await writeFiles(agent, {
      "package.json": JSON.stringify({ name, version: "1.0.0", packageManager: "pnpm@10.22.0", dependencies, scripts }),
      "prisma/schema.prisma": "generator client {}",
    });
    for (const one of ["client", "prisma"])
      await execa("tar", ["-czf", `${name}/${one}.tgz`, "-C", one, "package"], { cwd: place.dir });
    return agent;
  };
  const agent = await projectWith("agent", {});
  const { exitCode, all = "" } = await install(agent);
  assert.equal(exitCode, 0, all);
  assert.match(all, /pnpm did not run the installation script of @prisma\/client/);
  assert.equal(await readFile(path.join(agent, "generated"), "utf8"), "generate");

  const own = await projectWith("own", { build: "prisma generate && tsc" });
  assert.doesNotMatch((await install(own)).all ?? "", /pnpm did not run/, "the project generates it in its build");
});
