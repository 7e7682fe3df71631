import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { findRegistryProgram } from "../../../src/registry/registry-process.ts";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/free-port.ts";

const registryProgram = findRegistryProgram();
const skip = registryProgram === null && "docker-registry (Debian: apt-get install docker-registry)";
const removeProgram = path.resolve("src/compute/kubernetes/builds/remove-images.ts");
const mediaType = "application/vnd.oci.image.manifest.v1+json";
const digestOf = (content: string) => `sha256:${createHash("sha256").update(content).digest("hex")}`;

test("removes images by their digests and a cache by its tag, and reports images that are gone already", {
  skip,
}, async (context) => {
  const registry = await startRegistry(context, { deletes: true });
  const [first, second, cache] = [
    await registry.push("one"),
    await registry.push("two"),
    await registry.push("cache-a"),
  ];
  const { removed, message } = await remove(context, registry.host, [first, "cache-a", first, "cache-missing"]);
  assert.deepEqual([removed, message], [[0, 1, 2, 3], null]);
  assert.deepEqual(await Promise.all([first, "one", cache, "cache-a"].map(registry.has)), [false, false, false, false]);
  assert.deepEqual(await Promise.all([second, "two"].map(registry.has)), [true, true]);
  await registry.collectGarbage();
  const blobs = await registry.blobs();
  assert.deepEqual(
    [first, second, cache].map((digest) => blobs.includes(digest)),
    [false, true, false],
  );
  assert.equal(blobs.length, 3, "a manifest, its configuration and the layer");
});

test("says that a registry deletes no images, and leaves them", { skip }, async (context) => {
  const registry = await startRegistry(context, { deletes: false });
  const image = await registry.push("one");
  const { removed, message } = await remove(context, registry.host, [image]);
  assert.deepEqual([removed, message], [[], "the registry deletes no images"]);
  assert.equal(await registry.has(image), true);
});

test("removes the other images when the registry protects one of them", { skip }, async (context) => {
  const registry = await startRegistry(context, { deletes: true });
  const [first, kept, last] = [await registry.push("one"), await registry.push("kept"), await registry.push("last")];
  const host = await startProtection(context, registry.host, kept);
  const { removed, message } = await remove(context, host, [first, kept, last]);
  assert.deepEqual([removed, message], [[0, 2], "the registry answered 412: the tag is immutable"]);
  assert.deepEqual(await Promise.all([first, kept, last].map(registry.has)), [false, true, false]);
});

test("reports a registry that cannot be reached", async (context) => {
  const { removed, message } = await remove(context, `127.0.0.1:${await freePort()}`, [digestOf("x")]);
  assert.deepEqual(removed, []);
  assert.equal(message, "fetch failed");
});

async function remove(context: TestContext, host: string, references: string[]) {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-remove-"));
  context.after(() => rm(directory, { recursive: true }));
  const report = path.join(directory, "report");
  const env = { PIERHEAD_TERMINATION_LOG: report, PIERHEAD_REGISTRY_INSECURE: "true" };
  const child = spawn(process.execPath, [removeProgram, `${host}/agents`, ...references], { env, stdio: "ignore" });
  const [code] = await once(child, "exit");
  assert.equal(code, 0);
  return JSON.parse(await readFile(report, "utf8")) as { removed: number[]; message: string | null };
}

/** Passes requests on to a registry, but refuses to delete one image, as registries with immutable tags do. */
async function startProtection(context: TestContext, registryHost: string, digest: string): Promise<string> {
  const server = createServer(async ({ method = "", url = "", headers }, response) => {
    if (method === "DELETE" && url.endsWith(digest)) return response.writeHead(412).end("the tag is immutable");
    const { accept = "*/*" } = headers;
    const answer = await fetch(`http://${registryHost}${url}`, { method, headers: { accept } });
    response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  context.after(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A registry of this machine. `push` stores an image under a tag, and `has` looks for a tag or digest. */
async function startRegistry(context: TestContext, { deletes }: { deletes: boolean }) {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-registry-"));
  const host = `127.0.0.1:${await freePort()}`;
  const storage = { filesystem: { rootdirectory: directory }, ...(deletes && { delete: { enabled: true } }) };
  const config = path.join(directory, "config.yml");
  await writeFile(config, JSON.stringify({ version: "0.1", log: { level: "error" }, storage, http: { addr: host } }));
  const child = spawn(registryProgram as string, ["serve", config], { stdio: "ignore" });
  context.after(async () => {
    child.kill();
    await once(child, "exit");
    await rm(directory, { recursive: true });
  });
  const url = `http://${host}/v2`;
  const isUp = () =>
    fetch(`${url}/`).then(
      ({ ok }) => ok,
      () => false,
    );
  await eventually(isUp, (up) => up, { what: "the registry" });
  const send = (method: string, target: string, body?: string, type = "application/octet-stream") =>
    fetch(new URL(target, `${url}/`), {
      method,
      ...(body !== undefined && { body, headers: { "content-type": type } }),
    });
  const pushBlob = async (content: string) => {
    const begun = await send("POST", "agents/blobs/uploads/", "");
    const target = new URL(begun.headers.get("location") ?? "");
    target.searchParams.set("digest", digestOf(content));
    assert.equal((await send("PUT", target.href, content)).status, 201);
    return { mediaType: "application/octet-stream", digest: digestOf(content), size: content.length };
  };
  return {
    host,
    async collectGarbage() {
      const [code] = await once(
        spawn(registryProgram as string, ["garbage-collect", config], { stdio: "ignore" }),
        "exit",
      );
      assert.equal(code, 0);
    },
    /** Returns the digests of the files that the registry stores. */
    async blobs() {
      const below = await readdir(path.join(directory, "docker/registry/v2/blobs"), { recursive: true });
      return below
        .filter((name) => name.endsWith("/data"))
        .map((name) => `sha256:${path.basename(path.dirname(name))}`);
    },
    async push(tag: string) {
      const config = await pushBlob(JSON.stringify({ tag }));
      const manifest = JSON.stringify({ schemaVersion: 2, mediaType, config, layers: [await pushBlob("a layer")] });
      assert.equal((await send("PUT", `agents/manifests/${tag}`, manifest, mediaType)).status, 201);
      return digestOf(manifest);
    },
    async has(reference: string) {
      const answer = await fetch(`${url}/agents/manifests/${reference}`, { headers: { accept: mediaType } });
      await answer.arrayBuffer();
      return answer.status === 200;
    },
  };
}
