import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { baseImage, programFilesOf } from "../../src/builds/image/base-image.ts";
import { engineBases } from "../../src/builds/image/make-base.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import { startFakeEngine } from "../compute/docker/fake-engine.ts";

const nodeImage = "registry.example.com/team/node:24";

test("pulls the operator's build image with the credential for its registry", async (context) => {
  const { make, asked } = await place(context, (response) => response.end('{"status":"done"}\n'));
  assert.match(await make(), /^pierhead-built\/00000000:base-command-[0-9a-f]{16}$/);
  const { auth, ...named } = asked;
  assert.deepEqual(named, { fromImage: nodeImage, tag: null });
  assert.deepEqual(JSON.parse(Buffer.from(auth ?? "", "base64url").toString()), {
    username: "operator",
    password: "key",
    serveraddress: "registry.example.com",
  });
});

test("the programs of an image import nothing that the image lacks", async () => {
  for (const kind of ["command", "langgraph-js", "langgraph-js-postgres"] as const) {
    const files = await programFilesOf(kind);
    for (const [file, text] of Object.entries(files).filter(([name]) => name.endsWith(".ts"))) {
      const imports = text.matchAll(/^(?:import|export) (?!type\b)[^;]*?from "([^"]+)"/gm);
      for (const [, target = ""] of imports) {
        const isThere = target.startsWith("node:") || path.posix.join(path.posix.dirname(file), target) in files;
        assert.ok(isThere, `${file} imports ${target}`);
      }
    }
  }
});

test("updates the time of last use of an existing base image", async (context) => {
  const { make, tagged } = await place(context, (response) => response.end('{"status":"done"}\n'));
  const name = await make();
  assert.deepEqual(tagged, [name]);
});

test("names an image that cannot be pulled, for both ways in which the engine reports it", async (context) => {
  const said = await place(context, (response) => response.end('{"error":"manifest unknown"}\n'));
  const refused = await place(context, (response) => response.writeHead(404).end('{"message":"pull access denied"}'));
  const failure = (why: string) => ({
    reason: "ToolchainFailed",
    message: `The image ${nodeImage} cannot be pulled: ${why}`,
  });
  await assert.rejects(said.make(), failure("manifest unknown"));
  await assert.rejects(refused.make(), failure("pull access denied"));
});

/** Starts an engine that has all base images, and has `nodeImage` only after a pull. */
async function place(
  context: TestContext,
  pull: (response: { end(text: string): unknown; writeHead(status: number): { end(text: string): unknown } }) => void,
) {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-base-"));
  context.after(() => rm(directory, { recursive: true }));
  const registryAuthFile = path.join(directory, "config.json");
  const auth = Buffer.from("operator:key").toString("base64");
  await writeFile(registryAuthFile, JSON.stringify({ auths: { "registry.example.com": { auth } } }));
  const asked: { fromImage?: string | null; tag?: string | null; auth?: string | undefined } = {};
  const tagged: string[] = [];
  let isThere = false;
  const engine = await startFakeEngine(context, ({ url = "", headers }, response) => {
    const { pathname, searchParams } = new URL(url, "http://engine");
    if (pathname.endsWith("/images/create")) {
      isThere = true;
      asked.fromImage = searchParams.get("fromImage");
      asked.tag = searchParams.get("tag");
      asked.auth = headers["x-registry-auth"] as string | undefined;
      pull(response);
    } else if (pathname.endsWith("/tag")) {
      tagged.push(`${searchParams.get("repo")}:${searchParams.get("tag")}`);
      response.writeHead(201).end();
    } else if (isThere || pathname.includes("pierhead-built")) response.end('{"Id":"sha256:1"}');
    else response.writeHead(404).end('{"message":"no such image"}');
  });
  const target = {
    kind: "image" as const,
    ...{ host: engine.host, installationId: "00000000-0000-4000-8000-000000000000", nodeImage, pythonImage: "" },
    ...{ memoryMib: 512, cpuCores: 1, registryAuthFile, network: "none", canLimitProcesses: true },
  };
  const log = new BuildLog(() => {}, { secrets: [] });
  const { signal } = new AbortController();
  const build = { sourceDir: path.join(directory, "source"), cacheDir: directory, env: {}, log, signal };
  const make = async () => {
    const base = await baseImage(engineBases(engine, target, build), target, { kind: "command", context: build });
    return base.name;
  };
  return { asked, tagged, make };
}
