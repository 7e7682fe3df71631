import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { addRefundTemplate } from "./refund-template.ts";
import { addressOf, assertNoBrowserErrors, goToPart, startWorld } from "./world.ts";

const templates = await mkdtemp(path.join(tmpdir(), "pierhead-templates-"));
after(() => rm(templates, { recursive: true, force: true }));
await addRefundTemplate(templates);
await addSecondName(path.join(templates, "refunds/langgraph.json"));
// Callers of agents are checked, so only the session makes the console a caller.
const world = await startWorld({ PIERHEAD_TEMPLATES_DIR: templates, PIERHEAD_ENDPOINT_AUTH: "true" });
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));

/** Longer than a cold `npm install` of the agent server on a loaded machine. It is not a measurement. */
const timeoutMs = 400_000;
const made = await pierhead.client.createDeployment({
  body: {
    name: "support",
    source: "internal_template",
    source_config: { template_id: "refunds", deployment_type: "dev" },
    source_revision_config: {},
  },
});
const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
const revision = await pierhead.client.waitForRevision(ids, { timeoutMs });
assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");

/** Serves the graph under a second name, so that the agent has two assistants. */
async function addSecondName(file: string): Promise<void> {
  const { graphs, ...config } = JSON.parse(await readFile(file, "utf8")) as { graphs: Record<string, string> };
  await writeFile(file, JSON.stringify({ ...config, graphs: { ...graphs, second: graphs["agent"] } }));
}

/** Answers the question of a thread as another client of the agent, and waits for the end of the run. */
async function approveElsewhere(thread: string | null): Promise<void> {
  const answer = await fetch(`${made.url}/threads/${thread}/runs/wait`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": pierhead.apiKey },
    body: JSON.stringify({ assistant_id: "agent", command: { resume: true } }),
  });
  assert.equal(answer.status, 200, await answer.text());
}

const conversation = (page: Page) => page.getByRole("log", { name: "Conversation" });

async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel("Message").fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}
async function configure(page: Page, json: string): Promise<void> {
  await page.getByRole("button", { name: "Configuration" }).click();
  await page.getByLabel("Configurable values (JSON)").fill(json);
  await page.getByRole("button", { name: "Use for the next run" }).click();
}
const threadIn = (page: Page) => new URL(page.url()).searchParams.get("thread");
async function assertAccessible(page: Page): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await findings(page), [], colorScheme);
  }
  await page.setViewportSize({ width: 390, height: 844 });
  assert.deepEqual(await findings(page), [], "390 px");
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, "no sideways scrolling");
  await page.setViewportSize({ width: 1_400, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
}

test("chats with an agent by the session alone: the answer streams as markdown and the graph shows the way", async () => {
  const page = await open({ path: `${addressOf(made)}/try`, width: 1_400 });
  await page.waitForURL(/\/playground$/);
  await configure(page, '{"pause_ms": 15}');
  await say(page, "Which kettle keeps water warm?");
  await conversation(page)
    .getByText(/^Two of our kettles/)
    .waitFor();
  await page.getByRole("img", { name: /answer, running/ }).waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await conversation(page).getByRole("cell", { name: "Quay 1.0 l" }).waitFor();
  await page.getByRole("img", { name: /classify, done; answer, done/ }).waitFor();
  const thread = threadIn(page);
  assert.ok(thread);
  await assertAccessible(page);
  await page.reload();
  await conversation(page).getByText("Which kettle keeps water warm?").waitFor();
  assert.equal(threadIn(page), thread, "a reload stays in the thread");
  await page.getByRole("button", { name: "New thread" }).click();
  await page.getByText("Say something to your agent").waitFor();
  await page.context().close();
});

test("the message field of the playground is in view on a phone and on a low window", async () => {
  const page = await open({ path: `${addressOf(made)}/playground`, width: 1_400 });
  for (const [width, height] of [
    [390, 844],
    [360, 640],
    [1_440, 900],
  ] as const) {
    await page.setViewportSize({ width, height });
    const field = page.getByLabel("Message");
    await field.waitFor();
    const box = await page.locator(".composer").boundingBox();
    assert.ok(box && box.y + box.height <= height, `${width} px: it ends at ${box && box.y + box.height} of ${height}`);
    for (const name of ["Configuration", "Headers", "New thread"]) await page.getByRole("button", { name }).waitFor();
  }
  await page.context().close();
});

test("a run goes on during a reload, is watched again, and can be stopped", async () => {
  const page = await open({ path: `${addressOf(made)}/playground`, width: 1_400 });
  await configure(page, '{"pause_ms": 250}');
  await say(page, "Tell me about kettles");
  await conversation(page).getByText(/^Two/).waitFor();
  await page.reload();
  await conversation(page).getByText(/^Two/).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  assert.equal(await conversation(page).getByRole("cell").count(), 0, "the answer was cut");
  await page.context().close();
});

test("a run that waits for a person is edited and approved in its thread, with everything that happened", async () => {
  const page = await open({ path: `${addressOf(made)}/playground`, width: 1_400 });
  await say(page, "Order 8841 arrived broken. I want a refund.");
  await conversation(page).getByRole("heading", { name: "Approve a refund of 340 € for order 8841?" }).waitFor();
  await page.getByRole("img", { name: /approve_refund, waiting for you/ }).waitFor();
  await goToPart(page, "Threads");
  await page.getByRole("button", { name: "Waiting", exact: true }).click();
  await page.keyboard.press("/");
  await page.keyboard.type("broken");
  assert.equal(await page.getByLabel("Search the threads").inputValue(), "broken");
  await page.getByRole("button", { name: /Order 8841 arrived broken/ }).click();
  const timeline = page.getByRole("list", { name: "What happened" });
  await timeline.getByText("lookup_order").first().waitFor();
  await timeline.locator("summary", { hasText: "order_id=8841" }).click();
  await timeline.getByText('"delivered": "2026-11-21"').waitFor();
  await assertAccessible(page);
  await timeline.getByRole("button", { name: "Edit …" }).click();
  await timeline.getByLabel("Amount").fill("300");
  const poll = /\/agent\/threads\/[0-9a-f-]+$/;
  await page.route(poll, (route) => route.fulfill({ status: 503, json: { detail: "The deployment is starting." } }));
  await page.waitForResponse((response) => response.status() === 503);
  await page.unroute(poll);
  await timeline.getByRole("button", { name: "Approve with these values" }).click();
  await timeline.getByText("300 €").waitFor();
  await page.getByRole("button", { name: "State", exact: true }).click();
  await page.getByRole("region", { name: "State of the thread" }).getByText('"amount": 300').waitFor();
  await page.getByRole("button", { name: "Runs", exact: true }).click();
  await page.getByRole("row", { name: /Done/ }).nth(1).waitFor();
  for (const box of await page.getByLabel(/^Compare run/).all()) await box.check();
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  const two = page.getByRole("table", { name: "Two runs" });
  const heads = await two.getByRole("columnheader").allInnerTexts();
  assert.equal(heads.length, 2);
  for (const head of heads) assert.match(head, /\d\d:\d\d:\d\d\s+(Done|Waiting for you)/);
  assert.match(heads.join(), /Order 8841 arrived broken/);
  assert.match(heads.join(), /Answer: .*"amount":300/);
  await two.getByRole("button", { name: "Copy run id" }).first().waitFor();
  await two
    .getByRole("row", { name: /^Nodes/ })
    .getByText("lookup")
    .waitFor();
  await two
    .getByRole("row", { name: /^amount/ })
    .getByText("300", { exact: true })
    .waitFor();
  await assertAccessible(page);
  await page.reload();
  await two.waitFor();
  await page.context().close();
});

test("an earlier checkpoint is edited and run again, and an error says which node failed", async () => {
  const page = await open({ path: `${addressOf(made)}/playground`, width: 1_400 });
  await say(page, "I want a refund for order 8841");
  await conversation(page).getByRole("button", { name: "Approve", exact: true }).waitFor();
  await page.getByRole("button", { name: "Edit and run" }).click();
  const state = page.getByRole("region", { name: "State", exact: true });
  await state.getByLabel("amount").fill("25");
  await assertAccessible(page);
  await state.getByRole("button", { name: "JSON", exact: true }).click();
  assert.match(
    await page.getByLabel("State as JSON").inputValue(),
    /"amount": 25/,
    "the form and the JSON say the same",
  );
  // Another client goes on with the thread. The edit still follows the checkpoint where it began.
  await approveElsewhere(threadIn(page));
  await conversation(page)
    .getByText(/are on their way/)
    .waitFor();
  await page.getByRole("button", { name: "Fork and run" }).click();
  await conversation(page).getByRole("heading", { name: "Approve a refund of 25 € for order 8841?" }).waitFor();
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await page.keyboard.press("n");
  await conversation(page).getByRole("button", { name: "Decline", exact: true }).click();
  await conversation(page).getByText("a colleague declined the refund").waitFor();
  await say(page, "now fail");
  await conversation(page).getByRole("alert").getByText("the shop's server did not answer").waitFor();
  await page.getByRole("img", { name: /fail, failed/ }).waitFor();
  await page.context().close();
});

test("a graph inside of a node lights up and shows its steps, and its run is compared with one of another thread", async () => {
  const page = await open({ path: `${addressOf(made)}/playground`, width: 1_400 });
  await say(page, "Please compare the kettles");
  await page.getByRole("img", { name: /compare:find_prices, done; compare:write_table, done/ }).waitFor();
  await conversation(page).getByRole("cell", { name: "Quay 1.0 l" }).waitFor();
  const threadId = threadIn(page);
  await page.goto(`${pierhead.url}${addressOf(made)}/threads?thread=${threadId}`);
  await page.getByRole("button", { name: /^compare .*graph$/ }).click();
  const inside = page.getByRole("list", { name: "Inside compare" });
  await inside.getByText("find_prices").waitFor();
  await inside.getByText("write_table").waitFor();
  await page.getByRole("button", { name: "Runs", exact: true }).click();
  await page.getByRole("button", { name: "Compare with another thread …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog
    .getByRole("button", { name: /Which kettle keeps water warm/ })
    .first()
    .click();
  await dialog.getByRole("button", { name: /Done/ }).first().click();
  const two = page.getByRole("table", { name: "Two runs" });
  await two.getByRole("columnheader", { name: /^Please compare the kettles/ }).waitFor();
  await two.getByRole("columnheader", { name: /^Which kettle keeps water warm/ }).waitFor();
  const nodes = two.getByRole("row", { name: /^Nodes/ });
  await nodes.getByText("compare").waitFor();
  await nodes.getByText("answer").waitFor();
  await assertAccessible(page);
  await page.context().close();
});

test("a message takes files, is written again from where it stood, and a configuration is kept as an assistant", async () => {
  const page = await open({ path: `${addressOf(made)}/playground`, width: 1_400 });
  const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  await page.getByLabel("Files to attach").setInputFiles([
    { name: "kettle.png", mimeType: "image/png", buffer: Buffer.from(pixel, "base64") },
    { name: "notes.csv", mimeType: "text/csv", buffer: Buffer.from("model,price") },
  ]);
  await page.getByText("notes.csv").waitFor();
  await say(page, "Which of these kettles is it?");
  await conversation(page).getByRole("img", { name: "Sent with the text" }).waitFor();
  await conversation(page).getByText("model,price").waitFor();
  await conversation(page).getByRole("cell", { name: "Quay 1.0 l" }).waitFor();
  await say(page, "I want a refund for order 8841");
  await conversation(page)
    .getByRole("heading", { name: /for order 8841/ })
    .waitFor();
  await conversation(page).getByText("I want a refund for order 8841").hover();
  await conversation(page).getByRole("button", { name: "Write again" }).last().click();
  await say(page, "I want a refund for order 9002");
  await conversation(page)
    .getByRole("heading", { name: /for order 9002/ })
    .waitFor();
  assert.equal(await conversation(page).getByText("order 8841").count(), 0, "the thread forked before the message");
  await conversation(page).getByRole("button", { name: "Approve", exact: true }).click();
  await conversation(page)
    .getByText(/are on their way/)
    .waitFor();
  const assistant = page.getByRole("combobox", { name: "Assistant" });
  const graph = await assistant.locator("option:checked").textContent();
  await page.getByRole("button", { name: "Configuration" }).click();
  await page.getByLabel("Configurable values (JSON)").fill('{"pause_ms": 1}');
  await page.getByText("Keep as an assistant").click();
  await page.getByLabel("Name of the assistant").fill("quick");
  await page.getByRole("button", { name: "Save as new" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await assistant.locator("option:checked", { hasText: `quick (${graph})` }).waitFor({ state: "attached" });
  await page.getByRole("button", { name: "Configuration" }).click();
  await page.getByText("Keep as an assistant").click();
  await page.getByRole("button", { name: "Delete quick" }).click();
  await assistant.locator("option", { hasText: "quick" }).waitFor({ state: "detached" });
  await page.context().close();
});

test("a thread is resumed by the assistant that ran it, not by the first one of the agent", async () => {
  const page = await open({ path: `${addressOf(made)}/playground`, width: 1_400 });
  const assistant = page.getByRole("combobox", { name: "Assistant" });
  const first = await assistant.inputValue();
  const options = await assistant.locator("option").evaluateAll((all) => all.map((one) => one.getAttribute("value")));
  const second = options.find((id) => id !== first) ?? "";
  await assistant.selectOption(second);
  await say(page, "I want a refund for order 8841");
  const approve = conversation(page).getByRole("button", { name: "Approve", exact: true });
  await approve.waitFor();
  await page.reload();
  const request = page.waitForRequest(/\/runs\/stream$/);
  await approve.click();
  assert.equal(((await request).postDataJSON() as { assistant_id: string }).assistant_id, second);
  await conversation(page)
    .getByText(/are on their way/)
    .waitFor();
  await page.getByRole("button", { name: "New thread" }).click();
  await page.getByText("Say something to your agent").waitFor();
  assert.equal(await assistant.inputValue(), second, "a new thread keeps the assistant");
  await page.context().close();
});

test("a message that the agent does not accept comes back with the reason, and is sent once", async () => {
  const page = await open({ path: `${addressOf(made)}/playground`, width: 1_400 });
  const message = page.getByLabel("Message");
  const creation = /\/agent\/threads$/;
  let asked = 0;
  let answer = () => {};
  const mayAnswer = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route(creation, async (route) => {
    asked += 1;
    await mayAnswer;
    await route.fulfill({ status: 503, json: { detail: "The deployment is starting." } });
  });
  const request = page.waitForRequest(creation);
  await message.fill("Which kettle keeps water warm?");
  await message.press("Enter");
  await request;
  await message.fill("And which one whistles?");
  await message.press("Enter");
  await message.fill("");
  answer();
  await conversation(page).getByRole("alert").getByText("The deployment is starting.").waitFor();
  assert.equal(asked, 1);
  await page.unroute(creation);
  await page.getByRole("button", { name: "Send" }).click();
  await conversation(page).getByText("Which kettle keeps water warm?").waitFor();
  await conversation(page).getByRole("cell", { name: "Quay 1.0 l" }).waitFor();
  assert.equal(await conversation(page).getByRole("alert").count(), 0);
  await page.context().close();
});

test("the inbox shows what runs of all deployments ask, and a person edits, declines or approves there", async () => {
  const page = await open({ path: `${addressOf(made)}/playground`, width: 1_400 });
  for (const [order, at] of [
    ["8841", 0],
    ["9002", 1],
  ] as const) {
    if (at > 0) await page.getByRole("button", { name: "New thread" }).click();
    await say(page, `Order ${order} arrived broken. I want a refund.`);
    await conversation(page)
      .getByRole("heading", { name: new RegExp(`for order ${order}`) })
      .waitFor();
  }
  await page.reload();
  const pages = page.getByRole("navigation", { name: "Pages", exact: true });
  await pages.getByRole("link", { name: /^Approvals [2-9] waiting$/ }).click();
  await page.getByRole("heading", { name: "Approvals", level: 1 }).waitFor();
  const asks = page.getByRole("list", { name: "Waiting" }).getByRole("listitem");
  const first = asks.filter({ hasText: "for order 8841?" }).first();
  const second = asks.filter({ hasText: "for order 9002?" }).first();
  await first.getByText("Refunds above 200 € need a person").waitFor();
  const pictures = process.env["PIERHEAD_TEST_SCREENSHOTS"];
  if (pictures !== undefined) await page.screenshot({ path: path.join(pictures, "approvals.png") });
  await assertAccessible(page);
  if (pictures !== undefined) {
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 390, height: 844 });
    await page.screenshot({ path: path.join(pictures, "approvals-phone.png") });
    await page.setViewportSize({ width: 1_400, height: 900 });
  }
  await first.getByRole("button", { name: "Edit …" }).click();
  await first.getByLabel("Amount").fill("120");
  await first.getByRole("button", { name: "Approve with these values" }).click();
  const answered = page.getByRole("region", { name: "Answered here" });
  await answered.getByText('"amount":120').waitFor();
  await second.getByRole("button", { name: "Decline …" }).click();
  await second.getByLabel("Reason for the agent").fill("No photo");
  await second.getByRole("button", { name: "Decline", exact: true }).click();
  await answered.getByText("No photo").waitFor();
  await answered.getByRole("link", { name: "Read the thread" }).first().click();
  await page.getByText("a colleague declined the refund").first().waitFor();
  await page.context().close();
});

test("the playground says which revision answers while the newest one does not serve", async () => {
  const broken = await pierhead.client.createRevision({
    deployment_id: made.id,
    body: { source_config: { build_command: "node --no-such-option" } },
  });
  const newest = { deployment_id: made.id, revision_id: broken.id };
  assert.equal((await pierhead.client.waitForRevision(newest, { timeoutMs })).status, "BUILD_FAILED");
  const page = await open({ path: `${addressOf(made)}/playground`, width: 1_400 });
  await page.getByText("Revision 1 answers here.").waitFor();
  await page.getByText(/Revision 2 does not serve: build failed/).waitFor();
  await page.getByRole("main").getByRole("link", { name: "Revision 2" }).click();
  await page.locator(".cause").first().waitFor();
  await page.context().close();
});

test("a revision that does not serve shows its graph if the serving one has its build, and otherwise says how to see it", async () => {
  const idle = `${addressOf(made)}/playground?revision=`;
  const { resources } = await pierhead.client.listRevisions({ deployment_id: made.id });
  const failed = resources.find(({ status }) => status === "BUILD_FAILED");
  const page = await open({ path: `${idle}${failed?.id}` });
  const graph = page.getByRole("region", { name: "Graph" });
  await graph.getByText("To see its graph, try the revision or roll back to it.").waitFor();
  assert.equal(await graph.getByRole("img").count(), 0);
  const set = [{ name: "TONE", value: "kind" }];
  const { latest_revision_id: next } = await pierhead.client.changeVariables({ deployment_id: made.id, body: { set } });
  const changed = { deployment_id: made.id, revision_id: next ?? "" };
  assert.equal((await pierhead.client.waitForRevision(changed, { timeoutMs })).status, "DEPLOYED");
  await page.goto(`${pierhead.url}${idle}${revision.id}`);
  await graph.getByText("Revision 3 serves the same build, so this is its graph.").waitFor();
  await graph.getByRole("img", { name: /^Graph: .*approve_refund/ }).waitFor();
  await assertAccessible(page);
  await page.context().close();
});
