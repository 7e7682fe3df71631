import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";

const digestOf = (content: string) => `sha256:${createHash("sha256").update(content).digest("hex")}`;
const [program, restoreProgram] = ["push-image", "restore-cache"].map((name) =>
  path.resolve(`src/compute/kubernetes/builds/${name}.ts`),
) as [string, string];

test("pushes the image with a token for the credentials, and reports its digest", async (context) => {
  const registry = await startRegistry(context);
  const { layout, manifest } = await layOut(context);
  const ended = await push(context, registry.host, layout);
  assert.deepEqual(ended, { code: 0, report: { image: `${registry.host}/agents@${digestOf(manifest)}` } });
  assert.equal(registry.stored.get("manifest:tag"), manifest);
  assert.equal(registry.stored.get(digestOf("a layer")), "a layer");
});

test("does not follow a link in the layout, which the project may have made", async (context) => {
  const registry = await startRegistry(context);
  const { layout } = await layOut(context);
  const layer = path.join(layout, "blobs/sha256", digestOf("a layer").slice(7));
  await rm(layer);
  await symlink("/etc/passwd", layer);
  const { code, report } = await push(context, registry.host, layout);
  assert.equal(code, 1);
  assert.match((report as { message: string }).message, /^The image could not be pushed: ELOOP/);
  assert.equal(registry.stored.size, 0);
});

test("pushes again to a registry that was unavailable for a moment", async (context) => {
  const registry = await startRegistry(context, { unavailable: 1 });
  const { layout, manifest } = await layOut(context);
  const { code } = await push(context, registry.host, layout);
  assert.equal(code, 0);
  assert.equal(registry.stored.get("manifest:tag"), manifest);
});

test("the cache that a build leaves is restored for the next one, and a spoilt or missing one is not used", async (context) => {
  const registry = await startRegistry(context);
  const { layout, manifest } = await layOut(context);
  assert.equal((await push(context, registry.host, layout, { cache: [layout, "cache-one"] })).code, 0);
  assert.equal(registry.stored.get("manifest:cache-one"), manifest);
  const restore = async (tag: string, bytesMax = 1_000) => {
    const target = await mkdtemp(path.join(tmpdir(), "pierhead-cache-"));
    context.after(() => rm(target, { recursive: true }));
    const { code } = await run(context, registry.host, [
      restoreProgram,
      target,
      `${registry.host}/agents`,
      tag,
      `${bytesMax}`,
    ]);
    assert.equal(code, 0);
    return (name: string) => readFile(path.join(target, name), "utf8").catch(() => null);
  };
  const read = await restore("cache-one");
  const [top] = JSON.parse((await read("index.json")) ?? "").manifests;
  assert.equal(top.digest, digestOf(manifest));
  assert.deepEqual(top.annotations, { "org.opencontainers.image.ref.name": "latest" });
  for (const content of [manifest, "a layer", "{}"])
    assert.equal(await read(path.join("blobs/sha256", digestOf(content).slice(7))), content);

  assert.equal(await (await restore("cache-two"))("index.json"), null);
  assert.equal(await (await restore("cache-one", 5))("index.json"), null, "larger than a build may be");
  registry.stored.set(digestOf("a layer"), "another");
  assert.equal(await (await restore("cache-one"))("index.json"), null);
});

test("a missing Secret of the registry is named", async (context) => {
  const { layout } = await layOut(context);
  const { code, report } = await push(context, "registry.invalid", layout, { hasSecret: false });
  assert.equal(code, 1);
  assert.match((report as { message: string }).message, /the Secret that builds\.registrySecret names must exist/);
});

async function layOut(context: TestContext) {
  const layout = await mkdtemp(path.join(tmpdir(), "pierhead-layout-"));
  context.after(() => rm(layout, { recursive: true }));
  const blobs = path.join(layout, "blobs/sha256");
  await mkdir(blobs, { recursive: true });
  const put = async (content: string) => {
    await writeFile(path.join(blobs, digestOf(content).slice(7)), content);
    return { mediaType: "application/octet-stream", digest: digestOf(content), size: content.length };
  };
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const layers = [await put("a layer")];
  const manifest = JSON.stringify({ schemaVersion: 2, mediaType, config: await put("{}"), layers });
  const top = { ...(await put(manifest)), mediaType };
  await writeFile(path.join(layout, "index.json"), JSON.stringify({ schemaVersion: 2, manifests: [top] }));
  return { layout, manifest };
}

async function push(
  context: TestContext,
  host: string,
  layout: string,
  { hasSecret = true, cache = [] }: { hasSecret?: boolean; cache?: string[] } = {},
) {
  const { code, report } = await run(context, host, [program, layout, `${host}/agents`, "tag", ...cache], hasSecret);
  return { code, report: JSON.parse(report) as unknown };
}

async function run(context: TestContext, host: string, argv: string[], hasSecret = true) {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-push-"));
  context.after(() => rm(directory, { recursive: true }));
  const [report, auth] = [path.join(directory, "report"), path.join(directory, "config.json")];
  if (hasSecret)
    await writeFile(auth, JSON.stringify({ auths: { [host]: { auth: Buffer.from("robot:key").toString("base64") } } }));
  const env = {
    PATH: process.env["PATH"] ?? "",
    PIERHEAD_TERMINATION_LOG: report,
    PIERHEAD_REGISTRY_AUTH_FILE: auth,
    PIERHEAD_REGISTRY_INSECURE: "true",
  };
  const child = spawn(process.execPath, argv, { env, stdio: "ignore" });
  const [code] = await once(child, "exit");
  return { code, report: await readFile(report, "utf8").catch(() => "") };
}

/** A registry that wants a token, which its `/token` gives for the robot's key. */
async function startRegistry(context: TestContext, { unavailable = 0 } = {}) {
  const stored = new Map<string, string>();
  let left = unavailable;
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "", `http://${request.headers.host}`);
    const body = (await buffer(request)).toString();
    const { authorization } = request.headers;
    if (left > 0 && request.method === "POST") {
      left -= 1;
      return void response.writeHead(503).end();
    }
    if (url.pathname === "/token") {
      const isKnown = authorization === `Basic ${Buffer.from("robot:key").toString("base64")}`;
      return void response.writeHead(isKnown ? 200 : 401).end(JSON.stringify({ token: "pass" }));
    }
    if (authorization !== "Bearer pass") {
      const challenge = `Bearer realm="${url.origin}/token",service="registry",scope="repository:agents:pull,push"`;
      return void response.writeHead(401, { "www-authenticate": challenge }).end();
    }
    if (["GET", "HEAD"].includes(request.method ?? "")) return answerRead(response, stored.get(nameOf(url)));
    if (request.method === "POST")
      return void response.writeHead(202, { location: "/v2/agents/blobs/uploads/1" }).end();
    stored.set(url.searchParams.get("digest") ?? nameOf(url), body);
    response.writeHead(201).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, stored };
}

const answerRead = (response: ServerResponse, found: string | undefined) =>
  void response.writeHead(found === undefined ? 404 : 200).end(found);

const nameOf = ({ pathname }: URL) =>
  `${pathname.includes("/manifests/") ? "manifest:" : ""}${path.basename(pathname)}`;
