import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Images } from "../../src/compute/docker/images.ts";
import { answeringEngine } from "./answering-engine.ts";

const installationId = "00000000-0000-4000-8000-000000000000";
const oldId = `sha256:${"1".repeat(64)}`;
const newId = `sha256:${"2".repeat(64)}`;

test("a revision that was pinned to an image of this machine runs no other that has its name now", async (context) => {
  const { images, asked } = await imagesOf(context, { [newId]: newId, "team/agent:1": newId });
  await assert.rejects(
    images.ensure({ digest: oldId, uri: "team/agent:1" }, AbortSignal.timeout(5_000)),
    /team\/agent:1 meant when this revision was made is gone from this server\. Deploy/,
  );
  assert.equal(await images.ensure({ digest: newId, uri: "team/agent:1" }, AbortSignal.timeout(5_000)), newId);
  assert.equal(asked.pulls, 0);
});

test("nor does it ask a registry for that name, which is somebody else's there", async (context) => {
  const { images, asked } = await imagesOf(context, {});
  const gone = { digest: oldId, uri: "team/agent:1" };
  await assert.rejects(images.ensure(gone, AbortSignal.timeout(5_000)), { name: "UnusableSpec" });
  assert.equal(asked.pulls, 0);
});

test("one that was built again here under the same key is as good", async (context) => {
  const uri = `pierhead-built/00000000:${"3".repeat(64)}`;
  const { images } = await imagesOf(context, { [uri]: newId });
  assert.equal(await images.ensure({ digest: oldId, uri }, AbortSignal.timeout(5_000)), newId);
});

/** @param named what names and ids mean in an engine. */
async function imagesOf(context: TestContext, named: Record<string, string>) {
  const asked = { pulls: 0 };
  const engine = await answeringEngine(context, (request, response) => {
    const [, name = ""] = /\/images\/(.+)\/json$/.exec(request.url ?? "") ?? [];
    const Id = named[decodeURIComponent(name)];
    if (request.method === "POST") asked.pulls += 1;
    if (Id === undefined) response.writeHead(404).end('{"message":"no such image"}');
    else response.end(JSON.stringify({ Id, RepoTags: null, RepoDigests: null }));
  });
  const images = new Images(engine, { installationId, credentialOf: async () => null });
  return { images, asked };
}
