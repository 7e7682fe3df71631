import assert from "node:assert/strict";
import { after, test } from "node:test";
import { addressOf, assertNoBrowserErrors, goToPart, startWorld } from "./world.ts";

const world = await startWorld();
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));

/** Longer than a cold `npm install` of the agent server on a loaded machine. It is not a measurement. */
const timeoutMs = 400_000;

test("chats with a LangGraph server in threads and shows answers while they stream", async () => {
  const made = await pierhead.client.createDeployment({
    body: {
      name: "chat",
      source: "internal_template",
      source_config: { template_id: "langgraph-js-hello", deployment_type: "dev" },
      source_revision_config: {},
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
  const revision = await pierhead.client.waitForRevision(ids, { timeoutMs });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  const page = await open({ path: addressOf(made) });
  await goToPart(page, "Playground");
  const conversation = page.getByRole("log", { name: "Conversation" });
  const say = async (text: string) => {
    await page.getByLabel("Message").fill(text);
    await page.getByRole("button", { name: "Send" }).click();
  };
  await say("one more thing");
  await conversation.getByText("your message number 1 in this thread").waitFor();
  assert.match(await conversation.locator("p").first().innerText(), /^human one more thing/);
  await say("and what about this?");
  await conversation.getByText("A question of 4 words, and your message number 2").waitFor();
  assert.deepEqual(await findings(page), []);
  const streamed = world.requests.filter(({ url }) => /\/threads\/[\w-]+\/runs\/stream$/.test(url));
  assert.equal(streamed.length, 2);
  assert.equal(new Set(streamed.map(({ url }) => url)).size, 1, "one thread");
  await page.getByRole("button", { name: "New thread" }).click();
  await conversation.locator("p").first().waitFor({ state: "detached" });
  await say("hello");
  await conversation.getByText("Hello! I am a LangGraph.js agent").waitFor();
  assert.equal(new Set(world.requests.map(({ url }) => url).filter((url) => url.endsWith("/runs/stream"))).size, 2);
  await page.context().close();
});
