import assert from "node:assert/strict";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { eventually } from "../support/eventually.ts";
import { assertNoBrowserErrors, setShown, startWorld } from "./world.ts";

/** An agent server with one thread, whose node asks several questions. Like LangGraph's, all of them have the same id. */
const server = `import { createServer } from "node:http";
const thread = { thread_id: "t1", status: "interrupted", metadata: { assistant_id: "a" }, updated_at: "2026-01-01T00:00:00Z" };
const state = { value: "Which amount?", answers: [] };
const shown = () => ({ ...thread, interrupts: { task: [{ id: "same", value: state.value }] } });
createServer(async (request, response) => {
  let text = "";
  for await (const part of request) text += part;
  const { pathname, searchParams } = new URL(request.url, "http://agent");
  const send = (status, body) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  if (pathname === "/ok") return send(200, {});
  if (pathname === "/next") return send(200, (state.value = searchParams.get("value")));
  if (pathname === "/asks") return send(200, (state.value = JSON.parse(searchParams.get("value"))));
  if (pathname === "/answers") return send(200, state.answers);
  if (pathname === "/threads/search") return send(200, [{ ...thread, thread_id: {} }, null, { ...shown(), created_at: 5 }]);
  if (pathname === "/threads/t1") return send(200, shown());
  if (pathname !== "/threads/t1/runs") return send(404, {});
  if (request.method === "GET") return send(200, [{ run_id: "r", assistant_id: "a" }]);
  const { command, multitask_strategy } = JSON.parse(text);
  if (multitask_strategy !== "reject") return send(422, { detail: "a second answer would be queued" });
  state.answers.push(command.resume);
  thread.updated_at = new Date().toISOString();
  send(200, { run_id: "r" });
}).listen(Number(process.env.PORT), process.env.HOST);
process.on("SIGTERM", () => process.exit(0));
`;

const templates = await mkdtemp(path.join(tmpdir(), "pierhead-templates-"));
after(() => rm(templates, { recursive: true, force: true }));
await cp("templates/node-server", path.join(templates, "node-server"), { recursive: true });
await writeFile(path.join(templates, "node-server/server.js"), server);
const world = await startWorld({ PIERHEAD_TEMPLATES_DIR: templates });
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));

test("a question stays while its agent does not answer, and an answer never reaches another question of the same id", async () => {
  const made = await pierhead.client.createDeployment({
    body: {
      ...{ name: "asker", source: "internal_template", source_revision_config: {} },
      source_config: { template_id: "node-server", deployment_type: "dev" },
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
  assert.equal((await pierhead.client.waitForRevision(ids)).status, "DEPLOYED");
  const atAgent = async (at: string): Promise<unknown> => (await fetch(made.url + at)).json();

  const page = await open({ path: "/host/approvals" });
  const asks = page.getByRole("list", { name: "Waiting" }).getByRole("listitem");
  const form = page.getByRole("form", { name: "Which amount?" });
  await form.getByRole("button", { name: "Answer in JSON" }).click();
  await form.getByLabel("Answer as JSON").fill('"first"');
  await page.route("**/threads/search", (route) => route.fulfill({ status: 503, json: { detail: "It restarts." } }));
  await page.getByRole("region", { name: "Not asked" }).getByText("It restarts.").waitFor();
  assert.equal(await form.getByLabel("Answer as JSON").inputValue(), '"first"');
  await page.unroute("**/threads/search");
  await form.getByRole("button", { name: "Send the answer" }).click();
  await page.getByRole("region", { name: "Answered here" }).getByText('"first"').waitFor();
  const other = await open({ path: "/host/approvals" });
  await other.getByRole("button", { name: "Answered" }).click();
  const answers = other.getByRole("list", { name: "Answered" }).getByRole("listitem");
  await answers.filter({ hasText: "answered asker" }).waitFor();
  assert.equal(await answers.count(), 1);
  await other.getByRole("link", { name: "Read thread t1" }).waitFor();
  assert.deepEqual(await findings(other), []);
  await other.setViewportSize({ width: 390, height: 844 });
  assert.equal(await other.evaluate(() => document.documentElement.scrollWidth), 390);
  await other.reload();
  await answers.first().waitFor();
  await other.context().close();
  await form.getByRole("button", { name: "Approve" }).waitFor();
  assert.equal(await asks.count(), 1, "the next question has the same id and the same words");
  assert.deepEqual(await findings(page), []);

  await page.route("**/threads/search", (route) => route.fulfill({ status: 503, json: { detail: "It restarts." } }));
  await atAgent("/next?value=Which%20currency%3F");
  await form.getByRole("button", { name: "Approve" }).click();
  await form.getByText("This has been answered in the meantime.").waitFor();
  assert.deepEqual(await atAgent("/answers"), ["first"]);
  await page.context().close();
});

test("an agent with nothing new is asked less and less often, and not at all while the page is in the background", async () => {
  const page = await open({ path: "/host/approvals" });
  // A lost event stream would make the page read everything again, and its deadlines pass quickly here.
  await page.route("**/events*", () => {});
  await page.clock.install();
  await page.reload();
  await page.getByRole("form").first().waitFor();
  let asked = 0;
  let pending = 0;
  page.on("request", () => (pending += 1));
  page.on("requestfinished", () => (pending -= 1));
  page.on("requestfailed", () => (pending -= 1));
  page.on("request", (request) => {
    if (request.url().endsWith("/threads/search")) asked += 1;
  });
  const askedIn = async (minutes: number) => {
    const before = asked;
    for (let step = 0; step < minutes * 12; step += 1) {
      await page.clock.runFor(5_000);
      await eventually(
        () => pending,
        (count) => count <= 0,
        { what: "answers to the requests" },
      );
    }
    return asked - before;
  };
  const [first, later] = [await askedIn(2), await askedIn(10)];
  assert.ok(first >= 2, `${first} requests in the first 2 minutes`);
  assert.ok(later >= 4 && later <= 20, `${later} requests in 10 minutes`);
  await setShown(page, false);
  await askedIn(1);
  assert.equal(await askedIn(10), 0);
  await setShown(page, true);
  assert.ok((await askedIn(2)) >= 2, "a page that is in front again asks often");
  await page.context().close();
});

test("shows every tool call and every argument that an approval allows", async () => {
  const { resources } = await pierhead.client.listDeployments({ name: "asker" });
  const calls = [
    { name: "read_file", args: { path: "notes.txt", options: { follow: ["links"] } } },
    { name: "transfer_money", args: { to: "eve", amount: 900 } },
  ];
  const ask = (value: unknown) => fetch(`${resources[0]?.url}/asks?value=${encodeURIComponent(JSON.stringify(value))}`);
  await ask({ action_requests: calls, review_configs: [] });
  const page = await open({ path: "/host/approvals" });
  const form = page.getByRole("form", { name: "Allow 2 tool calls?" });
  const listed = form.getByRole("list", { name: "Tool calls" }).getByRole("listitem");
  await listed.nth(1).waitFor();
  assert.deepEqual(
    (await listed.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " ")),
    ["1 of 2: read_file", '2 of 2: transfer_money { "to": "eve", "amount": 900 }'],
  );
  for (const text of ["notes.txt", '"follow"']) await form.getByText(text).waitFor();
  assert.deepEqual(await findings(page), []);

  // The words of the agent must not stand for the call.
  await ask({
    description: "May I read a file?",
    ...{ action_request: { action: "delete_all", args: {} }, config: {} },
  });
  await page.reload();
  const other = page.getByRole("form", { name: "May I read a file?" });
  await other.getByRole("listitem").getByText("delete_all").waitFor();

  await ask({ question: "Send it?", mail: { to: "eve@example.org" }, title: "A second text" });
  await page.reload();
  const third = page.getByRole("form", { name: "Send it?" });
  for (const text of ["eve@example.org", "A second text"]) await third.getByText(text).waitFor();
  await page.context().close();
});
