import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { scratch, writeFiles } from "./fixtures.ts";

const program = fileURLToPath(new URL("../../src/builds/image/project-steps.ts", import.meta.url));
// `npm run` tells programs below it where its own package is. No build has that.
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_")));

interface Package {
  name: string;
  version: string;
  peerDependencies?: Record<string, string>;
}

/** Serves packages, as a registry does, and 404 for all other versions. */
async function registryWith(dir: string, packages: readonly Package[]) {
  const archives = new Map<string, Buffer>();
  for (const one of packages) {
    const made = path.join(dir, `${one.name}-${one.version}`);
    await writeFiles(made, { "package/package.json": JSON.stringify(one) });
    await execa("tar", ["-czf", `${made}.tgz`, "-C", made, "package"]);
    archives.set(`/${one.name}/-/${one.name}-${one.version}.tgz`, await readFile(`${made}.tgz`));
  }
  const server = createServer((request, response) => {
    const archive = archives.get(request.url ?? "");
    const found = packages.filter(({ name }) => request.url === `/${name}`);
    if (archive !== undefined) response.end(archive);
    else if (found.length === 0) response.writeHead(404).end("{}");
    else {
      const versions = found.map((one) => {
        const tarball = `http://${request.headers.host}/${one.name}/-/${one.name}-${one.version}.tgz`;
        return [one.version, { ...one, dist: { tarball } }] as const;
      });
      const latest = found.at(-1)?.version;
      const answer = { name: found[0]?.name, "dist-tags": { latest }, versions: Object.fromEntries(versions) };
      response.end(JSON.stringify(answer));
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.close();
      await once(server, "close");
    },
  };
}

test("replaces a version that the registry lacks also when a conflict of peers hides it at first", async () => {
  await using place = await scratch();
  const packages = [
    { name: "greeting", version: "1.0.0", peerDependencies: { tone: "^1.0.0" } },
    { name: "tone", version: "1.0.0" },
    { name: "tone", version: "2.0.0" },
  ];
  await using registry = await registryWith(place.dir, packages);
  const dependencies = { greeting: "^1.0.0", tone: "^2.0.0" };
  const locked = (version: string, more: object = {}) => ({
    version,
    integrity: `sha512-${createHash("sha512").update(version).digest("base64")}`,
    ...more,
  });
  const agent = path.join(place.dir, "agent");
  await writeFiles(agent, {
    "package.json": JSON.stringify({ name: "agent", version: "1.0.0", dependencies }),
    ".npmrc": `registry=${registry.url}/\nfetch-retries=0\naudit=false\ncache=./cache\n`,
    "package-lock.json": JSON.stringify({
      name: "agent",
      version: "1.0.0",
      lockfileVersion: 3,
      packages: {
        "": { name: "agent", version: "1.0.0", dependencies },
        "node_modules/greeting": locked("1.0.9", {
          resolved: `${registry.url}/greeting/-/greeting-1.0.9.tgz`,
          peerDependencies: { tone: "^1.0.0" },
        }),
        "node_modules/tone": { version: "2.0.0", resolved: `${registry.url}/tone/-/tone-2.0.0.tgz` },
      },
    }),
  });
  const argv = [program, "install", "."];
  const { exitCode, all = "" } = await execa(process.execPath, argv, {
    cwd: agent,
    env: environment,
    extendEnv: false,
    all: true,
    reject: false,
  });
  assert.equal(exitCode, 0, all);
  assert.match(all, /disagree about the versions of their peers/);
  assert.match(all, /package-lock\.json names greeting@1\.0\.9, which the registry does not have\./);
  assert.match(await readFile(path.join(agent, "node_modules/greeting/package.json"), "utf8"), /"1\.0\.0"/);
});
