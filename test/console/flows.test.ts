import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { addressOf, assertNoBrowserErrors, dropFolder, goTo, goToPart, setShown, startWorld } from "./world.ts";

const world = await startWorld();
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));

/** Logs each request, or the text of its `say` parameter. */
const logStatement =
  'console.log(new URL(request.url, "http://agent").searchParams.get("say") ?? "asked for " + request.url);';
const loggingAgent = (version: string) => {
  const files = nodeAgent(version);
  return {
    ...files,
    "server.js": files["server.js"]?.replace("const url =", `${logStatement} const url =`) ?? "",
  };
};
const repository = await createAgentRepository(loggingAgent("one"));
after(() => repository[Symbol.asyncDispose]());

async function deployed(name: string, page: Page) {
  const made = await pierhead.client.createDeployment({
    body: {
      name,
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
  assert.equal((await pierhead.client.waitForRevision(ids)).status, "DEPLOYED");
  await page.goto(`${pierhead.url}${addressOf(made)}/revisions`);
  await page.locator(".revision.active").waitFor();
  return { ...ids, url: made.url ?? "" };
}

/** Sends a request from the page and returns the agent's answer. */
async function tryIt(page: Page, target: string): Promise<string> {
  await goToPart(page, "Playground");
  await page.getByLabel("Path").fill(target);
  await page.getByRole("button", { name: "Send" }).click();
  const answer = page.getByRole("region", { name: "Response" });
  await answer.getByText(/^200 /).waitFor();
  return answer.locator("pre").innerText();
}

test("a new user deploys a template from the empty list, watches the build and calls the agent", async () => {
  const page = await open();
  await page.getByText("No deployments yet").waitFor();
  await page.getByRole("link", { name: "New deployment" }).first().click();
  await page.getByLabel("Plain Node server").check();
  await page.getByLabel("Name", { exact: true }).fill("first");
  await page.getByRole("button", { name: "Create and deploy" }).click();
  await page.locator(".revision.active").waitFor();
  await page.getByText("Fetch the template").waitFor();
  await page.getByText("healthy, and traffic has moved").waitFor();
  await page.getByRole("heading", { name: "first answers" }).waitFor();
  assert.match(new URL(page.url()).pathname, /\/host\/new$/, "the page of the form shows the build");
  assert.deepEqual(await findings(page), []);
  await page.getByRole("link", { name: "Open deployment" }).click();
  assert.match(await tryIt(page, "/"), /Hello from Pierhead/);
  await page.context().close();
});

test("a failed build shows its cause in the timeline and opens its log at the first error", async () => {
  const broken = {
    "pierhead.json": JSON.stringify({
      build: [["node", "-e", "console.log('compiling'); console.log('a.ts(3,1): error TS2304'); process.exit(7)"]],
      start: ["node", "server.js"],
    }),
  };
  await using bad = await createAgentRepository({ ...nodeAgent("bad"), ...broken });
  const page = await open({ path: "/host/new" });
  await page.getByRole("button", { name: "Git repository" }).click();
  await page.getByLabel("Repository").fill(bad.url);
  await page.getByLabel("Config file").fill("pierhead.json");
  await page.getByLabel("Name", { exact: true }).fill("broken");
  await page.getByRole("button", { name: "Create and deploy" }).click();
  const revision = page.locator(".revision");
  await revision.getByText("Failed", { exact: true }).first().waitFor();
  assert.match(await revision.locator(".cause").innerText(), /7/);
  const firstBad = revision.locator(".line.first-bad");
  await firstBad.waitFor();
  assert.match(await firstBad.innerText(), /a\.ts\(3,1\): error TS2304/);
  assert.ok(await firstBad.isVisible(), "the step of the first error is open");
  await page.context().close();
});

test("a form shows what a repository contains, keeps its draft over a reload, and a failed build is mended where it is shown", async () => {
  const config = JSON.stringify({ build: [["node", "-e", "process.exit(3)"]], start: ["node", "server.js"] });
  await using mixed = await createAgentRepository({
    ...nodeAgent("mended"),
    "broken/pierhead.json": config,
    "broken/.env.example": "GREETING=hello\n",
    "broken/server.js": "",
  });
  const page = await open({ path: "/host/new" });
  await page.getByRole("button", { name: "Git repository" }).click();
  await page.getByLabel("Repository").fill(mixed.url);
  await page.getByLabel("Config file").fill("nowhere.json");
  await page.getByText("A build would fail").waitFor();
  await page.getByRole("button", { name: "Use broken/pierhead.json" }).click();
  await page.getByText(/^Found broken\/pierhead\.json: .*starts with node server\.js/).waitFor();
  await page.getByText("asked for, left out while empty").waitFor();
  await page.getByLabel("Value of GREETING").fill("hidden-value");
  await page.getByLabel("Name", { exact: true }).fill("mended");
  assert.deepEqual(await findings(page), []);
  assert.ok(!(await page.evaluate(() => JSON.stringify(sessionStorage))).includes("hidden-value"));
  await page.reload();
  await page.getByText(/^Values are not kept .* GREETING again/).waitFor();
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "mended");
  await page.getByRole("button", { name: "Remove GREETING" }).click();
  await page.getByRole("button", { name: "Create and deploy" }).click();
  await page.locator(".cause").waitFor();
  await page.getByLabel("Config file").fill("pierhead.json");
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: "mended answers" }).waitFor();
  await page.context().close();
});

test("a cancelled build can be deployed again", async () => {
  const gate = path.join(await mkdtemp(path.join(tmpdir(), "pierhead-gate-")), "open");
  after(() => rm(path.dirname(gate), { recursive: true, force: true }));
  const wait = `console.log("at the", "gate"); if (!fs.existsSync(${JSON.stringify(gate)})) setInterval(() => {}, 1_000);`;
  const config = { build: [["node", "-e", wait]], start: ["node", "server.js"], health: "/ok" };
  await using slow = await createAgentRepository({ ...nodeAgent("late"), "pierhead.json": JSON.stringify(config) });
  const made = await pierhead.client.createDeployment({
    body: {
      name: "hesitating",
      source: "github",
      source_config: { repo_url: slow.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const page = await open({ path: `${addressOf(made)}/revisions` });
  await page.getByText("at the gate").waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  const redeploy = page.getByRole("button", { name: /^Redeploy: revision/ });
  await redeploy.waitFor();
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
  assert.equal((await pierhead.client.waitForRevision(ids)).status, "INTERRUPTED");
  await page.locator(".revision").getByText("Cancelled", { exact: true }).first().waitFor();
  await writeFile(gate, "");
  await redeploy.click();
  await page.locator(".revision").nth(1).waitFor();
  await page.locator(".revision.active:first-child").waitFor();
  assert.equal(JSON.parse(await tryIt(page, "/")).version, "late");
  await page.context().close();
});

test("a newer commit is deployed and rolled back without a build", async () => {
  const page = await open();
  await deployed("rolling", page);
  await repository.commit(loggingAgent("two"));
  await page.getByRole("button", { name: /^Redeploy: revision/ }).waitFor();
  const { resources } = await pierhead.client.listDeployments({ name: "rolling" });
  const id = resources[0]?.id ?? "";
  await pierhead.client.createRevision({ deployment_id: id, body: {} });
  // The page learns of the revision from events.
  await page.getByRole("button", { name: /^Roll back/ }).waitFor();
  assert.equal(JSON.parse(await tryIt(page, "/")).version, "two");
  await goToPart(page, "Revisions");
  await page
    .getByRole("button", { name: /changes since/ })
    .first()
    .click();
  await page.getByRole("cell", { name: "Commit", exact: true }).waitFor();
  // The list of revisions contains the new revision before the deployment names it.
  await page.route(`**/v2/deployments/${id}`, async (one) => {
    await sleep(1_000);
    await one.continue();
  });
  await page.getByRole("button", { name: /^Roll back: revision/ }).click();
  const rollback = page.getByRole("dialog", { name: "Roll back to revision 1?" });
  await rollback.getByText("Revision 2 serves until 1 is healthy.").waitFor();
  await rollback.getByRole("cell", { name: "Commit", exact: true }).waitFor();
  await rollback.getByRole("button", { name: "Roll back to 1" }).click();
  await page.locator(".revision").nth(2).waitFor();
  await page.locator(".revision.active:first-child").waitFor();
  await page.locator(".revision").first().getByText("built before").waitFor({ state: "attached" });
  assert.equal(JSON.parse(await tryIt(page, "/")).version, "one");
  await page.context().close();
});

test("environment changes are collected, explained and deployed together", async () => {
  const page = await open();
  const { deployment_id } = await deployed("settled", page);
  await goToPart(page, "Variables");
  await page.getByText("Paste a .env file").click();
  await page.getByLabel("Contents of a .env file").fill('GREETING="good day"\n# no\nexport TONE=kind');
  await page.getByRole("button", { name: "Add 2 variables" }).click();
  const staged = page.getByRole("region", { name: "Staged changes" });
  assert.match(await staged.innerText(), /Added:\s+GREETING\s+TONE/);
  await page.getByRole("button", { name: "Add a variable" }).click();
  await page.getByLabel("Name 3").fill("POSTGRES_URI");
  await staged
    .getByText(/POSTGRES_URI/)
    .last()
    .waitFor();
  assert.ok(await staged.getByRole("button", { name: "Deploy these changes" }).isDisabled(), "a reserved name");
  await page.getByRole("button", { name: "Remove POSTGRES_URI" }).click();
  const elsewhere = await pierhead.client.patchDeployment({
    deployment_id,
    body: { secrets: [{ name: "MEANWHILE", value: "kept" }] },
  });
  await pierhead.client.waitForRevision({ deployment_id, revision_id: elsewhere.latest_revision_id ?? "" });
  await staged.getByRole("button", { name: "Deploy these changes" }).click();
  await page.locator(".revision").nth(2).waitFor();
  await page.locator(".revision.active:first-child").waitFor();
  const { GREETING, TONE, MEANWHILE } = JSON.parse(await tryIt(page, "/env"));
  assert.deepEqual([GREETING, TONE, MEANWHILE], ["good day", "kind", "kept"]);
  await page.context().close();
});

test("log lines of the agent appear as they are written and can be searched by text", async () => {
  const page = await open();
  await deployed("talking", page);
  const url = await page.locator(".address a[href*='/d/']").getAttribute("href");
  await goToPart(page, "Logs");
  const query = page.getByLabel("Query", { exact: true });
  await query.waitFor();
  await fetch(`${url}/?needle=1`);
  await page.getByText("asked for /?needle=1").waitFor();
  const drawn = await page.getByRole("img", { name: / matching lines from / }).getAttribute("aria-label");
  const [from = 0, to = 0] = drawn?.split(" from ")[1]?.split(" to ").map(Date.parse) ?? [];
  assert.ok(to - from >= 899_000 && to - from < 1_800_000, `a young deployment has a short histogram: ${drawn}`);
  await query.fill("needle=1");
  await query.press("Enter");
  await page.getByText("asked for /?needle=1").waitFor();
  await fetch(`${url}/?other=2`);
  await fetch(`${url}/?needle=12`);
  await page.getByText("asked for /?needle=12").waitFor();
  assert.equal(await page.getByText("other=2").count(), 0);
  await setShown(page, false);
  await fetch(`${url}/?needle=13`);
  await setShown(page, true);
  await page.getByText("asked for /?needle=13").waitFor();
  assert.equal(await page.getByText("asked for /?needle=12").count(), 1);
  await page.context().close();
});

test("the log of a deployment is explored by level, time, replica and source, and shows no other deployment", async () => {
  const page = await open();
  const { url, ...ids } = await deployed("leveled", page);
  const longAgo = new Date(Date.now() - 5 * 3_600_000).toISOString();
  const say = (line: object) => fetch(`${url}/?${new URLSearchParams({ say: JSON.stringify(line) })}`);
  await say({ level: "warn", msg: "running low" });
  await say({ level: "error", msg: "was out", time: longAgo });
  await say({ level: "info", msg: "first replica" });
  const waitForLog = (text: string) =>
    eventually(
      () => pierhead.client.getDeploymentLogs({ deployment_id: ids.deployment_id, type: "deploy", query: text }),
      ({ logs }) => logs.length > 0,
      { what: text },
    );
  await waitForLog("first replica");
  const { latest_revision_id } = await pierhead.client.redeployRevision(ids);
  const second = { ...ids, revision_id: latest_revision_id ?? "" };
  assert.equal((await pierhead.client.waitForRevision(second)).status, "DEPLOYED");
  await say({ level: "error", msg: "second replica" });
  const { logs } = await waitForLog("second replica");

  await goToPart(page, "Logs");
  const log = page.getByRole("region", { name: "Log lines" });
  const query = page.getByLabel("Query", { exact: true });
  const ask = async (text: string) => {
    await query.fill(text);
    await query.press("Enter");
  };
  const seen = async (there: string[], gone: string[]) => {
    // Wait for the removals first, because lines of the previous result would otherwise count as found.
    for (const text of gone) await log.getByText(text).waitFor({ state: "detached" });
    for (const text of there) await log.getByText(text).waitFor();
    for (const text of gone) assert.equal(await log.getByText(text).count(), 0, text);
  };
  await seen(["running low", "was out", "first replica", "second replica"], []);
  const replica = logs[0]?.replica ?? "";
  await page
    .getByRole("region", { name: "Lines by replica" })
    .getByRole("button", { name: new RegExp(`^${replica.slice(-8)} ?\\d+$`) })
    .click();
  await seen(["second replica"], ["first replica", "running low", "was out"]);
  assert.equal(await query.inputValue(), `replica:${replica}`);
  await ask("level:>=warning");
  await seen(["running low", "was out", "second replica"], ["first replica"]);
  await page.getByLabel("Time range").selectOption({ label: "Last hour" });
  await seen(["running low", "second replica"], ["was out", "first replica"]);
  await ask("level:error replica");
  await page.waitForURL((at) => at.searchParams.get("q") === "level:error replica");
  await page.reload();
  await seen(["second replica"], ["running low", "was out", "first replica"]);
  assert.equal(await query.inputValue(), "level:error replica");
  assert.equal(await page.getByLabel("Time range").inputValue(), "3600");
  await page.goto(page.url().replace("span=3600", "span=1e30"));
  await seen(["second replica"], ["running low", "first replica"]);
  assert.equal(await page.getByLabel("Time range").inputValue(), "86400", "the page offers no such age");
  await ask("");
  await seen(["second replica"], ["reusing its artifact"]);
  await page.getByLabel("Builds").check();
  await page.waitForURL((at) => at.searchParams.get("q") === "source:deploy,build");
  await ask("source:build artifact");
  await seen([], ["second replica"]);
  await log.getByText("reusing its artifact").first().waitFor();
  await ask("deployment:talking");
  await page.getByRole("alert").getByText("This page has the lines of one deployment.").waitFor();
  assert.deepEqual(await findings(page), []);
  await page.context().close();
});

test("a chosen or dropped folder is uploaded without ignored files and runs", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "pierhead-folder-"));
  after(() => rm(folder, { recursive: true, force: true }));
  await mkdir(path.join(folder, "node_modules"));
  const files = {
    ...nodeAgent("uploaded"),
    ".gitignore": "*.tmp\n",
    "junk.tmp": "x",
    ".env": "SECRET=1",
    "node_modules/a.js": "",
  };
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, name), text);
  const uploaded = /^3 files, \d+ KiB\.$/;
  const page = await open({ path: "/host/new" });
  await page.getByRole("button", { name: "Upload" }).click();
  await page.locator("input[type=file]").setInputFiles(folder);
  await page.getByText(uploaded).waitFor();
  await page.reload();
  await page.getByRole("button", { name: "Upload" }).click();
  await dropFolder(page, folder);
  await page.getByText(uploaded).waitFor();
  await page.getByLabel("Config file").fill("pierhead.json");
  await page.getByLabel("Name", { exact: true }).fill("uploaded");
  // The upload fails, and fails again under another name. The console continues or deletes the deployment it began.
  const refusal = { status: 403, json: { detail: "This upload URL is not valid or has expired." } };
  await page.route("**/uploads/**", (route) => route.fulfill(refusal));
  const create = page.getByRole("button", { name: "Create and deploy" });
  const fails = () => Promise.all([page.waitForResponse("**/uploads/**"), create.click()]);
  await fails();
  await page.getByRole("alert").getByText("This upload URL is not valid").waitFor();
  await fails();
  await page.getByLabel("Name", { exact: true }).fill("uploaded-2");
  await fails();
  await page.unrouteAll({ behavior: "wait" });
  await create.click();
  await page.locator(".revision.active").waitFor();
  await page.getByRole("link", { name: "Open deployment" }).click();
  assert.equal(JSON.parse(await tryIt(page, "/")).version, "uploaded");
  const named = await pierhead.client.listDeployments({ name_contains: "uploaded" });
  assert.deepEqual(
    named.resources.map(({ name }) => name),
    ["uploaded-2"],
  );
  await page.context().close();
});

test("a user signs in, runs an action, creates a deployment and opens its log with the keyboard alone", async () => {
  const page = await open({ key: null });
  const { keyboard } = page;
  await page.getByLabel("API key").waitFor();
  await keyboard.type(pierhead.apiKey);
  await keyboard.press("Enter");
  await page.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
  await keyboard.press("Control+k");
  await keyboard.type("new depl");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "New deployment" }).waitFor();
  const tabTo = async (isThere: () => Promise<boolean>) => {
    for (let presses = 0; presses < 60; presses += 1) {
      if (await isThere()) return;
      await keyboard.press("Tab");
    }
    assert.fail("the keyboard does not get there");
  };
  const focused = (selector: string) => () =>
    page.evaluate((wanted) => document.activeElement?.matches(wanted) === true, selector);
  await page.getByLabel("Plain Node server").waitFor();
  await tabTo(focused("input[type=radio]"));
  await keyboard.press("Space");
  for (let steps = 0; steps < 3; steps += 1) await keyboard.press("ArrowDown");
  await tabTo(focused("input[required]"));
  await keyboard.press("Control+a");
  await keyboard.type("by-keyboard");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "by-keyboard" }).waitFor();
  await keyboard.press("Control+k");
  await keyboard.type("by-keyboard");
  await page.getByRole("option", { name: "by-keyboard: logs" }).waitFor();
  await keyboard.press("ArrowDown");
  await keyboard.press("Enter");
  await page.getByLabel("Query", { exact: true }).waitFor();
  assert.match(new URL(page.url()).pathname, /\/logs$/);
  await page.context().close();
});

test("several deployments are deleted together after a list of what is deleted", async () => {
  for (const name of ["doomed-1", "doomed-2"]) {
    const body = { name, source: "internal_source" as const, source_config: {}, source_revision_config: {} };
    await pierhead.client.createDeployment({ body });
  }
  const page = await open();
  await page.getByLabel("Filter deployments").fill("doomed");
  await page.waitForURL(/q=doomed/);
  await page.getByLabel("Select all on this page").check();
  await page.getByText("2 selected").waitFor();
  await page.getByRole("button", { name: "Delete …" }).click();
  const dialog = page.getByRole("dialog");
  assert.match(await dialog.innerText(), /databases[\s\S]*doomed/);
  await dialog.getByRole("textbox").fill("delete 2");
  await dialog.getByRole("button", { name: "Delete deployments" }).click();
  await page.getByText("No deployments match these filters.").waitFor();
  await page.context().close();
});

test("a deployment is deleted after its name was typed and a list of what is deleted was shown", async () => {
  const page = await open();
  await page.getByRole("main").getByRole("link", { name: "broken" }).click();
  await goToPart(page, "Settings");
  await page.getByRole("button", { name: "Delete this deployment …" }).click();
  const dialog = page.getByRole("dialog");
  for (const what of ["replicas", "revisions", "database", "variables"])
    assert.match(await dialog.innerText(), new RegExp(what));
  const remove = dialog.getByRole("button", { name: "Delete deployment" });
  assert.ok(await remove.isDisabled());
  await dialog.getByRole("textbox").fill("broken");
  await remove.click();
  await page.getByRole("heading", { name: "Deployments", level: 1 }).waitFor();
  await page.getByRole("main").getByRole("link", { name: "broken" }).waitFor({ state: "detached" });
  await page.context().close();
});

test("the settings create a key that is shown once, test a webhook, show its delivery and add a member", async () => {
  const page = await open();
  await goTo(page, "API keys");
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("ci");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  const key = await page.getByRole("dialog").locator("code").last().innerText();
  assert.match(key, /^ph_/);
  assert.equal((await fetch(`${pierhead.url}/v2/deployments`, { headers: { "x-api-key": key } })).status, 200);
  await page.getByRole("button", { name: "Close" }).click();
  await goTo(page, "Webhooks");
  await page.getByRole("button", { name: "New webhook" }).click();
  await page.getByLabel("URL").fill("http://127.0.0.1:1/hook");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByText(/^whsec_/).waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: /^Send a test/ }).click();
  await page.getByRole("button", { name: /^Deliveries to/ }).click();
  await page.getByText(/cannot be reached/).waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "New webhook" }).click();
  await page.getByLabel("Sends").selectOption("slack");
  await page.getByLabel("URL of an incoming webhook").fill("http://127.0.0.1:1/slack");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByText("Created. Send a test").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("cell", { name: "http://127.0.0.1:1/slack Slack", exact: true }).waitFor();
  await goTo(page, "Members");
  await page.getByRole("button", { name: "New member" }).click();
  await page.getByLabel("Email address").fill("ada@example.org");
  await page.getByRole("dialog").getByRole("button", { name: "Add" }).click();
  await page.getByRole("cell", { name: "ada@example.org", exact: true }).waitFor();
  await goTo(page, "Audit log");
  await page.getByText("created the member").waitFor();
  await page.context().close();
});

test("a draft stays in its workspace", async () => {
  const { id: second } = await pierhead.client.createWorkspace({ body: { name: "second" } });
  const page = await open({ path: "/host/new" });
  const workspace = page.getByRole("combobox", { name: "Workspace" });
  const first = await workspace.inputValue();
  const name = page.getByLabel("Name", { exact: true });
  await name.fill("typed-here");
  for (const [id, kept] of [
    [second, ""],
    [first, "typed-here"],
  ] as const) {
    await workspace.selectOption(id);
    const shown = async () => `${await workspace.inputValue()} ${await name.inputValue()}`;
    await eventually(shown, (text) => text === `${id} ${kept}`, { timeoutMs: 30_000, what: "the draft" });
  }
  await page.goto(`${pierhead.url}/host/quotas`);
  const limit = page.getByRole("textbox", { name: "Replicas" });
  await limit.fill("7");
  await workspace.selectOption(second);
  const typed = async () => `${await workspace.inputValue()} ${await limit.inputValue()}`;
  await eventually(typed, (text) => text === `${second} `, { timeoutMs: 30_000, what: "the limits" });
  await page.context().close();
});
