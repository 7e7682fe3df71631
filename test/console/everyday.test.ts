import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { addressOf, assertNoBrowserErrors, copiesOf, goToPart, startWorld } from "./world.ts";

const world = await startWorld();
const { findings, open, pierhead } = world;
const { client } = pierhead;
after(() => assertNoBrowserErrors(world));

/** Behaves like a LangGraph server whose first run fails. */
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

test("the playground keeps a message that the agent refused", async () => {
  const page = await open({ path: addressOf(made) });
  await goToPart(page, "Playground");
  const message = page.getByLabel("Message");
  await message.fill("a question of many words");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("alert").getByText("The agent answered 503: too busy").waitFor();
  assert.equal(await message.inputValue(), "a question of many words");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("log").getByText("heard at last").waitFor();
  assert.equal(await message.inputValue(), "");
  await page.context().close();
});

test("copies a key that is shown once on a page without https", async () => {
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

/** Splits a command into words as a shell does. */
const wordsOf = (command: string) =>
  [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? "");

async function runCommand(command: string): Promise<string> {
  const [npx, program, ...argv] = wordsOf(command);
  assert.deepEqual([npx, program], ["npx", "pierhead"]);
  const env = { ...process.env, PIERHEAD_API_KEY: pierhead.apiKey, PIERHEAD_URL: pierhead.url };
  const { stdout } = await promisify(execFile)(process.execPath, ["src/main.ts", ...argv], { env });
  return stdout;
}

test("copied commands do what the page does and contain no values of variables", async () => {
  const page = await open({ path: "/host/new" });
  await page.getByLabel("Plain Node server").check();
  await page.getByLabel("Name", { exact: true }).fill("copied");
  await page.getByRole("button", { name: "Add a variable" }).click();
  await page.getByLabel("Name 1").fill("TOKEN");
  await page.getByLabel("Value of TOKEN").fill("hunter2");
  const { curl, CLI, TypeScript } = await copiesOf(page.locator("form"));
  assert.ok(curl?.includes('"TOKEN"') && TypeScript?.includes('"TOKEN"') && CLI?.endsWith("--env-from .env"), CLI);
  assert.doesNotMatch(`${curl} ${CLI} ${TypeScript}`, /hunter2/);

  await page.goto(`${pierhead.url}/host/keys`);
  await page.getByRole("button", { name: "New key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("nightly jobs");
  const { CLI: makeKey = "" } = await copiesOf(dialog);
  await runCommand(makeKey);
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByText(/^ph_/).waitFor();
  const { resources } = await client.listApiKeys({ limit: 100 });
  const [one, other, ...more] = resources
    .filter(({ name }) => name === "nightly jobs")
    .map(({ role, scope, workspace_id, expires_at }) => ({ role, scope, workspace_id, day: expires_at?.slice(0, 10) }));
  assert.deepEqual([one, more], [other, []]);

  await page.goto(`${pierhead.url}${addressOf(made)}/revisions`);
  const serving = page.locator(".revision.active");
  await serving.getByRole("button", { name: "Redeploy" }).waitFor();
  const { CLI: again = "" } = await copiesOf(serving);
  await runCommand(again);
  assert.equal((await client.listRevisions({ ...ids })).resources.length, 2);
  await page.context().close();
});

test("a log stays scrolled to its newest line while thousands of lines arrive", async () => {
  const page = await open({ path: addressOf(made) });
  await goToPart(page, "Logs");
  const log = page.getByRole("region", { name: "Log lines" });
  const say = async (count: number) => {
    const { url } = await client.getDeployment(ids);
    await fetch(`${url}/say/${count}`);
    const last = log.getByText(`line ${count} of ${count}`, { exact: false });
    await last.waitFor({ state: "attached", timeout: 120_000 });
  };
  const below = () => log.evaluate((box) => box.scrollHeight - box.clientHeight - box.scrollTop);
  await say(3);
  await say(5_100);
  for (const count of [40, 41, 42]) await say(count);
  assert.ok((await log.locator(".ll").count()) < 150, "only the visible rows are in the page");
  await eventually(below, (px) => px < 2, { timeoutMs: 10_000, what: "the log is scrolled to its end" });
  await page.context().close();
});

test("a list page behind the last deployment offers a way back", async () => {
  const page = await open({ path: "/host/deployments?page=2" });
  await page.getByText("There are no more deployments.").waitFor();
  await page.getByRole("button", { name: "Previous" }).click();
  await page.getByRole("main").getByRole("link", { name: "everyday" }).waitFor();
  await page.context().close();
});

test("the list filters by what needs a look, with counts and a link to the filter", async () => {
  const body = { name: "never-deployed", source: "internal_source" as const, source_config: {} };
  await client.createDeployment({ body: { ...body, source_revision_config: {} } });
  const page = await open({ path: "/host/deployments" });
  const health = page.getByRole("group", { name: "Health" });
  await health.getByRole("button", { name: "All 2" }).waitFor();
  await health.getByRole("button", { name: "Needs a look 1" }).click();
  const rows = page.locator("tbody tr");
  await page.waitForURL(/health=attention/);
  await rows.filter({ hasText: "everyday" }).waitFor({ state: "detached" });
  assert.match(await rows.innerText(), /never-deployed[\s\S]*Unknown[\s\S]*Nothing has been deployed yet/);
  await page.getByRole("navigation", { name: "Needs a look" }).getByRole("link", { name: "never-deployed" }).click();
  await page.getByRole("heading", { name: "never-deployed", level: 1 }).waitFor();
  assert.match(await page.title(), /^Unknown · \w+ · never-deployed · Pierhead$/);
  await page.context().close();
});

test("the overview shows what serves and deploys the latest commit, and a failed deploy keeps the old one live", async () => {
  const page = await open({ path: addressOf(made) });
  const active = page.getByRole("region", { name: "Active revision" });
  await active.getByText(/in total · healthy, and traffic has moved/).waitFor();
  const before = Number(await active.locator(".revision-number").innerText());
  await repository.commit(
    { "pierhead.json": '{"build":[["node","-e","process.exit(3)"]],"start":["node","x"]}' },
    "Break it",
  );
  await page.getByRole("button", { name: "More ways to deploy" }).click();
  await page.getByRole("menuitem", { name: /^Deploy the latest commit/ }).click();
  const newest = page.locator(".revision").first();
  await newest.getByText("Failed", { exact: true }).waitFor();
  assert.equal(await newest.locator(".revision-number").innerText(), String(before + 1));
  const health = page.getByRole("region", { name: "Health" });
  await health.getByText(/^Degraded: The newest revision failed/).waitFor();
  await goToPart(page, "Overview");
  const main = page.locator("main .primary");
  await main.and(health.getByRole("link", { name: "Build log" })).waitFor();
  assert.equal(await main.count(), 1, "one button is filled");
  assert.equal(await active.locator(".revision-number").innerText(), String(before), "the old revision serves");
  await page
    .getByRole("region", { name: "Deploys" })
    .filter({ hasText: /Failed[\s\S]*Live/ })
    .waitFor();
  await page.getByRole("region", { name: "Events" }).getByText("Became degraded").waitFor();
  await page.context().close();
});

test("the cause of a failed start leads to the field of the variable that it misses", async () => {
  const needs = `if (!process.env.LEDGER_URL) throw new Error("LEDGER_URL is not set");\n${agent}`;
  const pierheadJson = JSON.stringify({ start: ["node", "server.js"], health: "/ok" });
  await repository.commit({ "pierhead.json": pierheadJson, "server.js": needs }, "Need the ledger");
  const created = await client.createDeployment({
    body: {
      name: "needs-the-ledger",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const page = await open({ path: `${addressOf(created)}/threads` });
  for (const part of ["Threads", "Playground"]) {
    await goToPart(page, part);
    await page.getByRole("heading", { name: "Nothing serves yet" }).waitFor();
    await page.getByText(/LEDGER_URL is not set/).waitFor();
    await page
      .locator("main .primary")
      .and(page.getByRole("link", { name: "Set LEDGER_URL" }))
      .waitFor();
  }
  await goToPart(page, "Overview");
  await page.getByRole("link", { name: "Set LEDGER_URL" }).click();
  await eventually(
    () => page.evaluate(() => document.activeElement?.getAttribute("aria-label")),
    (label) => label === "Value of LEDGER_URL",
  );
  assert.equal(await page.getByRole("region", { name: "Staged changes" }).count(), 0, "a link alone changes nothing");
  await page.keyboard.type("postgres://ledger");
  await page.getByRole("button", { name: "Deploy these changes" }).click();
  await page.locator(".revision.active").getByText("Live", { exact: true }).waitFor();
  await page.context().close();
});

test("the banner of a failure that may pass retries the revision", async () => {
  const signal = path.join(tmpdir(), `pierhead-room-${process.pid}`);
  const act = `require("fs").existsSync(${JSON.stringify(signal)}) || process.exit(console.error("ENOSPC: no space left on device, write") ?? 1)`;
  const pierheadJson = JSON.stringify({ build: ["node", "-e", act], start: ["node", "server.js"], health: "/ok" });
  await repository.commit({ "pierhead.json": pierheadJson, "server.js": agent }, "Fill the disk");
  const full = await client.createDeployment({
    body: {
      name: "needs-room",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const page = await open({ path: addressOf(full) });
  const health = page.getByRole("region", { name: "Health" });
  await health.getByText(/^Failed: The disk of the build host is full/).waitFor();
  await writeFile(signal, "");
  await health.getByRole("button", { name: "Retry" }).click();
  await page.locator(".revision.active").getByText("Live", { exact: true }).waitFor();
  await rm(signal);
  await page.context().close();
});

test("the palette and keys offer the acts of the page, and the bell lists how deploys ended", async () => {
  const page = await open({ path: addressOf(made) });
  await page.getByRole("heading", { name: "everyday", level: 1 }).waitFor();
  await page.keyboard.press("d");
  await page.getByRole("menuitem", { name: /^Deploy/ }).waitFor();
  await page.keyboard.press("Escape");
  // A menu that closes takes the focus back to its button.
  await page.getByRole("menu").waitFor({ state: "detached" });
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Page, action or deployment" }).and(page.locator(":focus")).waitFor();
  await page.keyboard.type("everyday restart");
  await page.getByRole("option", { name: /^Restart/ }).waitFor();
  for (let letter = 0; letter < 16; letter += 1) await page.keyboard.press("Backspace");
  await page.keyboard.type("dark colours");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Use light colours" }).waitFor();
  await page.getByRole("button", { name: /^News/ }).click();
  await page
    .getByRole("menuitem", { name: /^[a-z-]+: the new revision is live/ })
    .first()
    .waitFor();
  // An open menu lies outside of the landmarks of the page.
  await page.keyboard.press("Escape");
  await page.getByRole("menu").waitFor({ state: "detached" });
  assert.deepEqual(await world.findings(page), []);
  await page.context().close();
});

test("a variable group is created, used by a deployment, changed, and deployed from the answer to the change", async () => {
  const page = await open({ path: "/host/variable-groups" });
  await page.getByRole("button", { name: "New group" }).click();
  await page.getByLabel("Name", { exact: true }).fill("model-keys");
  await page.getByLabel("Name 1").fill("MODEL_KEY");
  await page.getByLabel("Value of MODEL_KEY").fill("one");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("table", { name: "Variable groups" }).getByText("MODEL_KEY").waitFor();

  await page.goto(`${pierhead.url}${addressOf(made)}/environment`);
  await page.getByLabel("Add a variable group").selectOption("model-keys");
  await page.getByRole("button", { name: "Deploy with these groups" }).click();
  const part = page.getByRole("region", { name: "Variable groups" });
  await part.getByText("Not deployed yet").waitFor({ state: "detached" });
  await part.getByText("MODEL_KEY").waitFor();

  await page.goto(`${pierhead.url}/host/variable-groups`);
  await page.getByRole("button", { name: "Edit model-keys" }).click();
  const value = page.getByLabel("Value of MODEL_KEY");
  assert.equal(await value.inputValue(), "", "a stored secret is not shown");
  await value.fill("two");
  await page.getByRole("button", { name: "Save" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("listitem").getByText(made.name).waitFor();
  assert.deepEqual(await findings(page), []);
  await dialog.getByRole("button", { name: `Deploy now: ${made.name} with model-keys` }).click();
  const readUsers = async () => (await client.listVariableGroups()).resources[0]?.deployments;
  await eventually(readUsers, (users) => users?.[0]?.is_current === true);
  await page.context().close();
});

test("the first revision of a new deployment has the variables of the chosen group", async () => {
  const pierheadJson = JSON.stringify({ start: ["node", "server.js"], health: "/ok" });
  await repository.commit({ "pierhead.json": pierheadJson, "server.js": agent }, "Answer without the ledger");
  const page = await open({ path: "/host/new" });
  await page.getByRole("button", { name: "Git repository" }).click();
  await page.getByLabel("Repository").fill(repository.url);
  await page.getByLabel("Config file").fill("pierhead.json");
  await page.getByLabel("Name", { exact: true }).fill("grouped");
  await page
    .getByRole("group", { name: "From variable groups" })
    .getByLabel(/^model-keys/)
    .check();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Create and deploy" }).click();
  await page.getByRole("heading", { name: "grouped answers" }).waitFor();
  const [grouped] = (await client.listDeployments({ name_contains: "grouped" })).resources;
  assert.ok(grouped);
  const { groups } = await client.getDeploymentVariableGroups({ deployment_id: grouped.id });
  const user = groups[0]?.deployments.find(({ id }) => id === grouped.id);
  assert.deepEqual([groups[0]?.name, user?.is_current], ["model-keys", true]);
  assert.equal((await client.listRevisions({ deployment_id: grouped.id })).resources.length, 1);
  await page.context().close();
});

test("the log of a revision that reuses a build leads to the revision that built it", async () => {
  const built = await client.createDeployment({
    body: {
      name: "built-once",
      source: "internal_template",
      source_config: { template_id: "node-server", deployment_type: "dev" },
      source_revision_config: {},
    },
  });
  const ids = { deployment_id: built.id, revision_id: built.latest_revision_id ?? "" };
  assert.equal((await client.waitForRevision(ids)).status, "DEPLOYED");
  await client.redeployRevision(ids);
  const page = await open({ path: `${addressOf(built)}/revisions` });
  await page.getByRole("region", { name: "Build log of revision 2" }).getByText("reusing its artifact").waitFor();
  await page.getByRole("link", { name: "First used by revision 1" }).click();
  const first = page.getByRole("region", { name: "Build log of revision 1" });
  await first.getByText("Read the configuration").waitFor();
  await page.context().close();
});
