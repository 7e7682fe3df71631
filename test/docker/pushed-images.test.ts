import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, rm, utimes } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { Registry } from "../../src/registry/registry.ts";
import { findRegistryProgram, RegistryProcess } from "../../src/registry/registry-process.ts";
import { createLogger } from "../../src/telemetry/log.ts";

const program = findRegistryProgram();
const skip = program === null ? "docker-registry (Debian: apt-get install docker-registry)" : false;
const day = 86_400_000;

const imageType = "application/vnd.oci.image.manifest.v1+json";
const listType = "application/vnd.oci.image.index.v1+json";
const digestOf = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;

let directory = "";
let registry: Registry;
before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "pierhead-registry-"));
});
after(async () => {
  await registry?.close();
  await rm(directory, { recursive: true, force: true });
});

/** The registry itself, without its proxy, on a port instead of its socket. Its files are those of the registry under test. */
async function filled(fill: (port: number) => Promise<void>): Promise<void> {
  const own = new RegistryProcess({ directory, program: program as string, logger: createLogger("silent") });
  const socket = await own.socket();
  const forwarder = createServer((client) => client.pipe(connect(socket)).pipe(client)).listen(0, "127.0.0.1");
  await once(forwarder, "listening");
  await fill((forwarder.address() as AddressInfo).port);
  forwarder.close();
  await own.stop();
}

/** @returns digests of its only layer and of its manifest */
async function pushImage(port: number, name: string, tag: string, content: string) {
  const put = async (text: string) => {
    const begun = await fetch(`http://127.0.0.1:${port}/v2/${name}/blobs/uploads/`, { method: "POST" });
    const location = new URL(begun.headers.get("location") ?? "", `http://127.0.0.1:${port}`);
    location.searchParams.set("digest", digestOf(text));
    assert.equal((await fetch(location, { method: "PUT", body: text })).status, 201);
    return { digest: digestOf(text), size: text.length };
  };
  const config = { mediaType: "application/vnd.oci.image.config.v1+json", ...(await put(`{"of":"${content}"}`)) };
  const layer = { mediaType: "application/vnd.oci.image.layer.v1.tar", ...(await put(content)) };
  const manifest = { schemaVersion: 2, mediaType: imageType, config, layers: [layer] };
  return { layer: layer.digest, manifest: await pushManifest(port, name, tag, manifest) };
}

async function pushManifest(port: number, name: string, tag: string, manifest: { mediaType: string }) {
  const body = JSON.stringify(manifest);
  const headers = { "content-type": manifest.mediaType };
  const answer = await fetch(`http://127.0.0.1:${port}/v2/${name}/manifests/${tag}`, { method: "PUT", headers, body });
  assert.equal(answer.status, 201, await answer.text());
  return digestOf(body);
}

test("images of remaining and of new revisions stay, with all parts of a list; others are deleted with their blobs", {
  skip,
}, async () => {
  const [mine, gone, emptied] = [randomUUID(), randomUUID(), randomUUID()];
  const pushed: Record<string, { layer: string; manifest: string }> = {};
  let list = "";
  await filled(async (port) => {
    // The images of this deployment were deleted before the deployment itself.
    await fetch(`http://127.0.0.1:${port}/v2/r/${emptied}/agent/blobs/uploads/`, { method: "POST" });
    for (const name of ["kept", "old", "new", "part"]) {
      pushed[name] = await pushImage(port, `r/${mine}/team/agent`, name, `content of ${name}`);
    }
    pushed["foreign"] = await pushImage(port, `r/${gone}/agent`, "1", "content of foreign");
    const part = {
      mediaType: imageType,
      digest: pushed["part"]?.manifest,
      size: 1,
      platform: { architecture: "amd64", os: "linux" },
    };
    const size = await fetch(`http://127.0.0.1:${port}/v2/r/${mine}/team/agent/manifests/part`, {
      headers: { accept: imageType },
    });
    part.size = (await size.text()).length;
    const manifest = { schemaVersion: 2, mediaType: listType, manifests: [part] };
    list = await pushManifest(port, `r/${mine}/team/agent`, "list", manifest);
  });
  const revisions = path.join(
    directory,
    `data/docker/registry/v2/repositories/r/${mine}/team/agent/_manifests/revisions`,
  );
  const twoDaysAgo = new Date(Date.now() - 2 * day);
  for (const digest of [...["kept", "old", "part"].map((name) => pushed[name]?.manifest), list]) {
    await utimes(path.join(revisions, String(digest).replace(":", "/"), "link"), twoDaysAgo, twoDaysAgo);
  }
  const signer = { sign: () => "", isSigned: () => false };
  registry = new Registry({
    location: { directory, program: program as string },
    signer,
    logger: createLogger("silent"),
  });
  const needed = {
    deployments: async () => new Set([mine]),
    digests: async () => new Set([pushed["kept"]?.manifest ?? "", list]),
  };
  assert.equal(await registry.sweep(needed), 0, "a push may be in progress");
  assert.equal(await registry.sweep(needed, { quietMs: 0 }), 2);
  assert.equal(await registry.sweep(needed, { quietMs: 0 }), 0);
  const find = (id: string, name: string, reference: string) => registry.findDigest(id, name, reference);
  for (const name of ["kept", "new", "part"]) {
    assert.equal(await find(mine, "team/agent", name), pushed[name]?.manifest, name);
  }
  assert.equal(await find(mine, "team/agent", "list"), list);
  assert.equal(await find(mine, "team/agent", "old"), null);
  assert.equal(await find(mine, "team/agent", pushed["old"]?.manifest ?? ""), null);
  assert.equal(await find(gone, "agent", "1"), null);
  const repositories = await readdir(path.join(directory, "data/docker/registry/v2/repositories/r"));
  assert.deepEqual(repositories, [mine], "nothing is left of deleted deployments");
  await registry.close();
  await filled(async (port) => {
    const layers = Object.entries(pushed).map(async ([name, { layer }]) => {
      const { status } = await fetch(`http://127.0.0.1:${port}/v2/r/${mine}/team/agent/blobs/${layer}`, {
        method: "HEAD",
      });
      return [name, status === 200];
    });
    const there = Object.fromEntries(await Promise.all(layers));
    assert.deepEqual(there, { kept: true, old: false, new: true, part: true, foreign: false });
  });
});
