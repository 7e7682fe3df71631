import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createAgentRepository, nodeAgent } from "../agent-repository.ts";
import { eventually } from "../eventually.ts";
import { addressOf, assertQuiet, goToPart, startWorld } from "./world.ts";

const world = await startWorld();
const { open, pierhead } = world;
const { client } = pierhead;
after(() => assertQuiet(world));

/** Speaks as a LangGraph server does; of its runs the first one fails. */
const agent = `
let runs = 0;
require("node:http").createServer((request, response) => {
  response.setHeader("content-type", "application/json");
  if (request.url === "/ok") return response.end("{}");
  if (request.url === "/assistants/search") return response.end('[{"assistant_id": "a", "graph_id": "agent"}]');
  if (request.url === "/threads") return response.end('{"thread_id": "t"}');
  if (!request.url.endsWith("/runs/stream")) {
    const [, count] = /^\\/say\\/(\\d+)$/.exec(request.url) ?? [];
    for (let at = 1; at <= Number(count); at += 1) console.log("line " + at + " of " + count);
    return response.end("{}");
  }
  runs += 1;
  if (runs === 1) return response.writeHead(503).end('{"detail": "too busy"}');
  response.setHeader("content-type", "text/event-stream");
  const messages = [{ type: "ai", content: "heard at last" }];
  response.end("event: values\\ndata: " + JSON.stringify({ messages }) + "\\n\\n");
}).listen(process.env.PORT, "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
`;
const repository = await createAgentRepository({ ...nodeAgent("everyday"), "server.js": agent });
after(() => repository[Symbol.asyncDispose]());
const made = await client.createDeployment({
  body: {
    name: "everyday",
    source: "github",
    source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
  },
});
const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
assert.equal((await client.waitForRevision(ids)).status, "DEPLOYED");

test("what is typed to an agent stays: a key letter by letter, a message that did not get through", async () => {
  const page = await open({ path: addressOf(made) });
  await goToPart(page, "Try it");
  await page.getByLabel("API key").focus();
  for (const letter of "secret") await page.keyboard.press(letter, { delay: 100 });
  assert.equal(await page.getByLabel("API key").inputValue(), "secret");
  const message = page.getByLabel("Message");
  await message.fill("a question of many words");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("alert").getByText("The agent answered 503").waitFor();
  assert.equal(await message.inputValue(), "a question of many words");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("log").getByText("heard at last").waitFor();
  assert.equal(await message.inputValue(), "");
  await page.context().close();
});

test("a key that is shown once is copied where the page is not served over https, too", async () => {
  const page = await open({ path: "/host/keys" });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.evaluate(() => navigator.clipboard.writeText("what was there before"));
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }));
  await page.getByRole("button", { name: "New key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("ci");
  await dialog.getByRole("button", { name: "Create" }).click();
  const key = await dialog.locator("code").last().innerText();
  await dialog.getByRole("button", { name: /^Copy: ph_/ }).click();
  await page.getByText("Copied.").waitFor();
  const copied = await page.evaluate(() => {
    Reflect.deleteProperty(navigator, "clipboard");
    return navigator.clipboard.readText();
  });
  assert.equal(copied, key);
  await page.context().close();
});

test("a log stays at its newest line, also when the page holds as many as it keeps", async () => {
  const page = await open({ path: addressOf(made) });
  await goToPart(page, "Logs");
  const log = page.getByRole("log", { name: "Log lines" });
  const say = async (count: number) => {
    const { url } = await client.getDeployment(ids);
    await fetch(`${url}/say/${count}`);
    await log.getByText(`line ${count} of ${count}`, { exact: false }).waitFor({ state: "attached" });
  };
  const below = () => log.evaluate((box) => box.scrollHeight - box.clientHeight - box.scrollTop);
  await say(3);
  await say(5_100);
  assert.equal(await log.locator(".line").count(), 5_000);
  for (const count of [40, 41, 42]) await say(count);
  assert.equal(await log.locator(".line").count(), 5_000);
  await eventually(below, (px) => px < 2, { timeoutMs: 10_000, what: "its end" });
  await page.context().close();
});
