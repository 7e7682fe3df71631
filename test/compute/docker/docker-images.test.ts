import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Images } from "../../../src/compute/docker/images/images.ts";
import { Registry } from "../../../src/registry/registry.ts";
import { readConfig } from "../../../src/server/config.ts";
import { ImageNames } from "../../../src/server/registry.ts";
import { createLogger } from "../../../src/telemetry/log.ts";
import { startFakeEngine } from "./fake-engine.ts";

const installationId = "00000000-0000-4000-8000-000000000000";
const deploymentId = "00000000-0000-4000-8000-000000000001";
const oldId = `sha256:${"1".repeat(64)}`;
const newId = `sha256:${"2".repeat(64)}`;

test("a revision pinned to a local image does not run another image that has its name now", async (context) => {
  const { images, asked } = await imagesOf(context, { [newId]: newId, "team/agent:1": newId });
  await assert.rejects(
    images.ensure({ digest: oldId, uri: "team/agent:1" }, AbortSignal.timeout(5_000)),
    /team\/agent:1 referred to when this revision was created no longer exists on this server\. Deploy/,
  );
  assert.equal(await images.ensure({ digest: newId, uri: "team/agent:1" }, AbortSignal.timeout(5_000)), newId);
  assert.equal(asked.pulls, 0);
});

test("a revision pinned to a local image does not pull its name from a registry, where others may publish it", async (context) => {
  const { images, asked } = await imagesOf(context, {});
  const gone = { digest: oldId, uri: "team/agent:1" };
  await assert.rejects(images.ensure(gone, AbortSignal.timeout(5_000)), { name: "UnusableSpec" });
  assert.equal(asked.pulls, 0);
});

test("an image built again here under the same key is equivalent", async (context) => {
  const uri = `pierhead-built/00000000:${"3".repeat(64)}`;
  const { images } = await imagesOf(context, { [uri]: newId });
  assert.equal(await images.ensure({ digest: oldId, uri }, AbortSignal.timeout(5_000)), newId);
});

test("pulls an image from the new address after its registry has moved", async (context) => {
  const digest = `sha256:${"4".repeat(64)}`;
  const [before, now] = ["8124", "9000"].map((port) => `127.0.0.1:${port}/r/${deploymentId}/agent@${digest}`);
  const uris = { before: before as string, now: now as string };
  const registry = new Registry({
    location: async () => ({ origin: "http://127.0.0.1", prefix: "", login: null }),
    signer: { sign: () => "", isSigned: () => false },
    logger: createLogger("silent"),
  });
  context.after(() => registry.close());
  const config = readConfig({ PORT: "9000" });
  const names = new ImageNames(config, { db: null as never, registry, ownUrl: () => "http://127.0.0.1:9000" });
  const { images, asked } = await imagesOf(
    context,
    {},
    {
      pulled: { [uris.now]: newId },
      currentUriOf: (uri) => names.currentUriOf(uri),
    },
  );
  assert.equal(await images.ensure({ digest, uri: uris.before }, AbortSignal.timeout(5_000)), newId);
  assert.deepEqual(asked.from, [uris.now]);
  const elsewhere = `registry.example.com/r/${deploymentId}/agent@${digest}`;
  assert.equal(names.currentUriOf(elsewhere), elsewhere);
});

test("an image with too many labels is refused, and keeps its tag unless it was pulled for this start", async (context) => {
  const own = { [newId]: newId, "team/agent:1": newId };
  const { images, asked } = await imagesOf(context, own, {
    pulled: { "team/pulled:1": oldId },
    labelBytes: 600 * 1024,
  });
  const start = (uri: string) => images.ensure({ digest: uri, uri }, AbortSignal.timeout(5_000));
  const refused = /cannot be used: the image has more than 512 KiB of labels and variables/;
  await assert.rejects(start("team/agent:1"), { name: "UnusableSpec", message: refused });
  assert.deepEqual(asked.removed, []);
  const both = ["team/pulled:1", "team/pulled:1"].map((uri) =>
    assert.rejects(start(uri), { name: "UnusableSpec", message: refused }),
  );
  await Promise.all(both);
  assert.deepEqual([asked.pulls, asked.removed], [1, ["team/pulled:1"]]);
});

/**
 * @param named ids by the names and ids that the engine knows
 * @param registry.pulled ids by the names that exist only after a pull
 * @param registry.labelBytes size of the labels of each image
 */
async function imagesOf(
  context: TestContext,
  named: Record<string, string>,
  registry: { pulled?: Record<string, string>; currentUriOf?: (uri: string) => string; labelBytes?: number } = {},
) {
  const asked = { pulls: 0, from: [] as string[], removed: [] as string[] };
  const engine = await startFakeEngine(context, (request, response) => {
    const [, name = ""] = /\/images\/(.+)\/json$/.exec(request.url ?? "") ?? [];
    const from = new URL(request.url ?? "", "http://engine").searchParams.get("fromImage");
    if (from !== null) {
      asked.pulls += 1;
      asked.from.push(from);
      Object.assign(named, registry.pulled);
      return response.end('{"status":"done"}\n');
    }
    if (request.method === "DELETE") {
      const removed = decodeURIComponent(request.url?.split("/images/")[1] ?? "");
      asked.removed.push(removed);
      delete named[removed];
      return response.end("[]");
    }
    if (request.method === "POST") return response.writeHead(201).end();
    const Id = named[decodeURIComponent(name)];
    if (Id === undefined) return response.writeHead(404).end('{"message":"no such image"}');
    const Config = { Labels: { large: "x".repeat(registry.labelBytes ?? 0) } };
    return response.end(JSON.stringify({ Id, RepoTags: null, RepoDigests: null, Config }));
  });
  const { currentUriOf } = registry;
  const options = { installationId, credentialOf: async () => null, ...(currentUriOf && { currentUriOf }) };
  const images = new Images(engine, options);
  return { images, asked };
}
