import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";

const digestOf = (content: string) => `sha256:${createHash("sha256").update(content).digest("hex")}`;
const program = path.resolve("src/compute/kubernetes/builds/push-image.ts");

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

async function push(context: TestContext, host: string, layout: string, { hasSecret = true } = {}) {
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
  const child = spawn(process.execPath, [program, layout, `${host}/agents`, "tag"], { env, stdio: "ignore" });
  const [code] = await once(child, "exit");
  return { code, report: JSON.parse(await readFile(report, "utf8")) as unknown };
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
    if (request.method === "HEAD") return void response.writeHead(404).end();
    if (request.method === "POST")
      return void response.writeHead(202, { location: "/v2/agents/blobs/uploads/1" }).end();
    stored.set(url.searchParams.get("digest") ?? `manifest:${path.basename(url.pathname)}`, body);
    response.writeHead(201).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, stored };
}
