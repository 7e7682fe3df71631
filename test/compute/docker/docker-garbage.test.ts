import assert from "node:assert/strict";
import { test } from "node:test";
import { collectGarbage } from "../../../src/compute/docker/images/collect-garbage.ts";
import { labels } from "../../../src/compute/docker/replicas/container.ts";
import { startFakeEngine } from "./fake-engine.ts";

const installationId = "00000000-0000-4000-8000-000000000000";
const unnamed = `sha256:${"1".repeat(64)}`;

/** Containers inherit the labels of their image, so containers of images based on `pierhead/langgraph-js` have our labels. */
test("leftover containers of a build are removed after a day; containers of users' images based on ours stay", async (context) => {
  const listed = (name: string, image: string, ageHours: number) => ({
    Id: name,
    Names: [`/${name}`],
    Image: image,
    Created: Math.round(Date.now() / 1000) - ageHours * 3_600,
    Labels: { [labels.installation]: installationId },
  });
  const containers = [
    listed("epic_edison", unnamed, 25),
    listed("eager_euler", unnamed, 23),
    listed("happy_hopper", "team/agent:1", 25),
    listed("staging", unnamed, 25),
    listed("team-agent-1", unnamed, 25),
  ];
  const removed: string[] = [];
  const engine = await startFakeEngine(context, ({ method, url = "" }, response) => {
    if (method === "DELETE") removed.push(/\/containers\/([^?]+)/.exec(url)?.[1] ?? url);
    const found = url.includes("/containers/json") ? containers : { Images: [] };
    response.end(JSON.stringify(found));
  });
  await collectGarbage(engine, { installationId, bytesMax: 0, signal: AbortSignal.timeout(5_000) });
  assert.deepEqual(removed, ["epic_edison"]);
});

test("base images replaced by newer ones are removed above the size limit, because they can be built again", async (context) => {
  const built = "pierhead-built/00000000";
  const images = [
    { Id: "used", RepoTags: [`${built}:base-command-1`] },
    { Id: "old", RepoTags: [`${built}:base-langgraph-js-1`] },
    { Id: "older", RepoTags: [`${built}:base-langgraph-js-0`] },
    { Id: "public", RepoTags: [`${built}:base-langgraph-js-2`, "pierhead/langgraph-js:latest"] },
    { Id: "agent", RepoTags: [`${built}:${"1".repeat(64)}`] },
  ].map((image) => ({
    ...image,
    Labels: { [labels.installation]: installationId },
    Size: 10,
    SharedSize: 0,
    Containers: 0,
  }));
  const ageHours: Record<string, number> = { used: 0, old: 1, older: 2, public: 3, agent: 4 };
  const asked: string[] = [];
  const engine = await startFakeEngine(context, ({ method, url = "" }, response) => {
    const [, id = ""] = /\/images\/(\w+)/.exec(url) ?? [];
    if (method === "DELETE") asked.push(id);
    if (method === "DELETE" && id === "older") {
      // An agent image is still based on it.
      return response.writeHead(409).end('{"message":"image has dependent child images"}');
    }
    if (url.includes("/system/df")) return response.end(JSON.stringify({ Images: images }));
    const LastTagTime = new Date(Date.now() - (ageHours[id] ?? 0) * 3_600_000).toISOString();
    return response.end(id in ageHours ? JSON.stringify({ Metadata: { LastTagTime } }) : "[]");
  });
  const options = { installationId, bytesMax: 40, signal: AbortSignal.timeout(5_000) };
  assert.deepEqual(await collectGarbage(engine, options), { removed: ["old"], bytes: 40 });
  assert.deepEqual(asked, ["older", "old"]);
  assert.deepEqual((await collectGarbage(engine, { ...options, bytesMax: 0 })).removed, ["old"]);
});
