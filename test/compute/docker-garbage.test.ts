import assert from "node:assert/strict";
import { test } from "node:test";
import { labels } from "../../src/compute/docker/container.ts";
import { collectGarbage } from "../../src/compute/docker/garbage.ts";
import { answeringEngine } from "./answering-engine.ts";

const installationId = "00000000-0000-4000-8000-000000000000";
const unnamed = `sha256:${"1".repeat(64)}`;

/** A container takes the labels of its image, and images that people build on `pierhead/langgraph-js` have ours. */
test("containers that a build left go after a day; those that people made of images that began with ours stay", async (context) => {
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
  const engine = await answeringEngine(context, ({ method, url = "" }, response) => {
    if (method === "DELETE") removed.push(/\/containers\/([^?]+)/.exec(url)?.[1] ?? url);
    const found = url.includes("/containers/json") ? containers : { Images: [] };
    response.end(JSON.stringify(found));
  });
  await collectGarbage(engine, { installationId, bytesMax: 0, signal: AbortSignal.timeout(5_000) });
  assert.deepEqual(removed, ["epic_edison"]);
});
