import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page, Route } from "playwright-core";
import { createClient } from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import { addressOf, assertNoBrowserErrors, goTo, goToPart, setShown, signIn, signOut, startWorld } from "./world.ts";

/** Several users, tabs and versions of the console at the same time must not affect each other. */
const world = await startWorld({ PIERHEAD_COMPUTE: "simulated" });
const { pierhead, open } = world;
after(() => assertNoBrowserErrors(world));
const { client } = pierhead;

const bot = (name: string) =>
  client.createDeployment({
    body: {
      name,
      source: "github",
      source_config: { repo_url: "https://git.invalid/acme/bot", deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });

const save = (page: Page, label: string) =>
  page
    .locator("main form")
    .filter({ has: page.getByLabel(label) })
    .getByRole("button", { name: "Save" });

test("settings send only the typed fields, keep the changes of others and never reach another deployment", async () => {
  const [one, two] = [await bot("one"), await bot("two")];
  const page = await open({ path: `${addressOf(two)}/settings` });
  await page.getByLabel("Tracked branch").waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("one sett");
  await page.getByRole("option", { name: "one: settings" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "one", level: 1 }).waitFor();
  await client.patchDeployment({
    deployment_id: one.id,
    body: { display_name: "Named by another", tracked_repo_ref: "theirs" },
  });
  await page.getByRole("heading", { name: "Named by another", level: 1 }).waitFor();
  assert.equal(await page.getByLabel("Display name").inputValue(), "Named by another");
  assert.ok(await save(page, "Display name").isDisabled(), "nothing was typed");
  await page.getByLabel("Tracked branch").fill("mine");

  await page.keyboard.press("Control+k");
  await page.keyboard.type("two sett");
  await page.getByRole("option", { name: "two: settings" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "two", level: 1 }).waitFor();
  assert.equal(await page.getByLabel("Tracked branch").inputValue(), "main");
  await page.goBack();
  await page.getByRole("heading", { name: "Named by another", level: 1 }).waitFor();
  await page.getByLabel("Tracked branch").fill("mine");
  await client.patchDeployment({ deployment_id: one.id, body: { display_name: "Named again" } });
  await page.getByRole("heading", { name: "Named again", level: 1 }).waitFor();
  await save(page, "Display name").click();
  await page.getByText("Saved.").waitFor();
  const { display_name, source_config } = await client.getDeployment({ deployment_id: one.id });
  assert.deepEqual([display_name, source_config.repo_branch], ["Named again", "mine"]);
  await page.context().close();
});

test("saving one limit keeps a limit that another admin set in the meantime", async () => {
  const page = await open({ path: "/host/quotas" });
  const { workspace_id } = await client.getSession();
  const limits = page.locator("main form");
  await limits.getByLabel("Replicas").fill("40");
  await client.patchQuotas({ workspace_id: workspace_id ?? "", body: { deployments: 500 } });
  await limits.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();
  const { deployments, replicas } = await client.getQuotas({ workspace_id: workspace_id ?? "" });
  assert.deepEqual([deployments.limit, replicas.limit], [500, 40]);
  await page.context().close();
});

test("the key list shows more than one page of the API, and the oldest key can be revoked", async () => {
  const { id } = await client.createApiKey({ body: { name: "the oldest", role: "reader" } });
  for (let index = 0; index < 100; index += 1)
    await client.createApiKey({ body: { name: `later ${index}`, role: "reader" } });
  const page = await open({ path: "/host/keys" });
  await page.getByText("later 99", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Revoke the oldest", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await page.getByText("the oldest was revoked.").waitFor();
  for await (const one of client.all("listApiKeys")) assert.notEqual(one.id, id, "the key is revoked");
  await page.context().close();
});

test("a page that lost its server for minutes shows the changes when it is live again", async () => {
  const made = await bot("away");
  await using wire = await startTcpProxy(pierhead.url);
  const page = await open({ key: null });
  await page.clock.install();
  await page.goto(`${wire.url}${addressOf(made)}/logs`);
  await signIn(page, pierhead.apiKey);
  await page.getByRole("heading", { name: "away", level: 1 }).waitFor();
  const mark = page.locator(".top .live");
  await mark.getByText("Live updates").waitFor();
  const alert = page.locator("main [role=alert]");
  const until = async (holds: () => Promise<boolean>) => {
    for (let second = 0; second < 120 && !(await holds()); second += 1) await page.clock.runFor(1_000);
    assert.ok(await holds());
  };
  wire.become("reset");
  await until(async () => (await mark.innerText()) === "Connecting …" && (await alert.count()) === 1);
  await client.patchDeployment({ deployment_id: made.id, body: { display_name: "Changed meanwhile" } });
  wire.become("none");
  await until(async () => (await mark.innerText()) === "Live updates" && (await alert.count()) === 0);
  await page.clock.runFor(1_000);
  await page.getByRole("heading", { name: "Changed meanwhile", level: 1 }).waitFor({ timeout: 5_000 });
  await page.context().close();
  // The browser logs the failed requests.
  const provoked = world.browserErrors
    .splice(0)
    .filter((text) => !text.startsWith("Failed to load resource: net::ERR_"));
  assert.deepEqual(provoked, []);
});

test("a page of an earlier version loads the parts of the new version", async () => {
  const made = await bot("upgraded");
  const page = await open({ path: addressOf(made) });
  await page.getByRole("heading", { name: "upgraded", level: 1 }).waitFor();
  const gone = { status: 404, json: { detail: "Not Found" } };
  await page.route(/\/assets\/deployment-settings-[^/]+\.js$/, (route) => route.fulfill(gone), { times: 1 });
  // The old page lives until the new one loads, and must not show the failure, whichever events arrive.
  const slowly = async (route: Route) => {
    // The page has shown the first change when it requests the second.
    for (const tracked_repo_ref of ["first", "second"]) {
      const asked = () => world.requests.filter(({ url }) => url.endsWith(`/v2/deployments/${made.id}`)).length;
      const before = asked();
      await client.patchDeployment({ deployment_id: made.id, body: { tracked_repo_ref } });
      await eventually(asked, (count) => count > before, { what: "the old page asks again" });
    }
    await route.continue();
  };
  await page.route(/\/settings$/, slowly, { times: 1 });
  await goToPart(page, "Settings");
  await page.getByLabel("Display name").waitFor({ timeout: 10_000 });
  await page.context().close();
});

test("a page whose scripts do not arrive loads once more, then shows that, and works when they are there again", async () => {
  const context = await world.browser.newContext();
  const page = await context.newPage();
  let isAway = true;
  let asked = 0;
  await page.route("**/assets/app-*.js", (route) => {
    asked += 1;
    return isAway ? route.abort() : route.continue();
  });
  await page.goto(pierhead.url);
  await page.getByText("The console could not be loaded.").waitFor();
  assert.ok(asked >= 2, "it was asked for again");
  isAway = false;
  await page.reload();
  await page.getByLabel("API key").waitFor();
  await context.close();
});

test("a typed filter does not come back after the user returned to the whole list", async () => {
  const page = await open();
  await page.getByLabel("Filter deployments").fill("upgr");
  await page.waitForURL((url) => url.searchParams.get("q") === "upgr");
  await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link", { name: "Deployments" }).click();
  await page.waitForURL((url) => !url.searchParams.has("q"));
  assert.equal(await page.getByLabel("Filter deployments").inputValue(), "");
  await sleep(500);
  assert.equal(new URL(page.url()).search, "");
  await page.context().close();
});

test("a link selects its workspace, which survives a reload and returns with the Back button", async () => {
  const { id: second, name } = await client.createWorkspace({ body: { name: "second" } });
  const { id: first, name: firstName } = (await client.getSession()).workspaces.find((one) => one.id !== second) ?? {
    id: "",
    name: "",
  };
  const elsewhere = createClient({ baseUrl: pierhead.url, apiKey: pierhead.apiKey, workspaceId: second });
  const made = await elsewhere.createDeployment({
    body: {
      name: "over-there",
      source: "github",
      source_config: { repo_url: "https://git.invalid/acme/bot", deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  assert.equal(made.tenant_id, second);
  const page = await open({ path: addressOf(made) });
  await page.getByRole("heading", { name: "over-there", level: 1 }).waitFor();
  await goTo(page, "Deployments");
  await page.getByRole("main").getByRole("link", { name: "over-there" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Deployments", level: 1 }).waitFor();
  const chosen = page.getByLabel("Workspace");
  assert.equal(await chosen.inputValue(), second, name);
  await page.getByRole("main").getByRole("link", { name: "over-there" }).click();
  await page.getByRole("heading", { name: "over-there", level: 1 }).waitFor();
  await chosen.selectOption(first);
  await page.getByRole("main").getByRole("link", { name: "upgraded" }).waitFor();
  assert.equal(await chosen.inputValue(), first, firstName);
  await page.goBack();
  await page.getByRole("heading", { name: "over-there", level: 1 }).waitFor();
  assert.equal(await chosen.inputValue(), second);
  await page.context().close();
});

test("a user who signs in after a session ended sees no data from that session", async () => {
  const made = await bot("not-for-others");
  const { id, key } = await client.createApiKey({ body: { name: "ends", role: "deployer" } });
  const page = await open({ key, path: addressOf(made) });
  await page.getByRole("heading", { name: "not-for-others", level: 1 }).waitFor();
  await client.revokeApiKey({ api_key_id: id });
  await page.getByLabel("API key").waitFor();
  let asked = () => {};
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  let answer = () => {};
  const mayAnswer = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route(`**/v2/deployments/${made.id}`, async (route) => {
    asked();
    await mayAnswer;
    await route.continue();
  });
  await signIn(page, pierhead.apiKey);
  await isAsked;
  assert.equal(await page.getByRole("heading", { name: "not-for-others" }).count(), 0);
  answer();
  await page.getByRole("heading", { name: "not-for-others", level: 1 }).waitFor();
  await page.context().close();
});

test("a tab shows the user who signed in on another tab and no data of the previous user", async () => {
  const made = await bot("of-the-first");
  const { key } = await client.createApiKey({ body: { name: "the second", role: "reader" } });
  const page = await open({ path: addressOf(made) });
  await goToPart(page, "Settings");
  await page.getByLabel("Display name").fill("typed");
  // Simulates the return from another tab.
  const lookAt = (one: Page) =>
    one.evaluate(() => void document.dispatchEvent(new Event("visibilitychange", { bubbles: true })));
  let refused = 0;
  await page.route("**/v2/session", (route) => {
    refused += 1;
    return route.fulfill({ status: 503, json: { detail: "Not now." } });
  });
  await lookAt(page);
  await eventually(
    () => refused,
    (times) => times >= 4,
  );
  await sleep(500);
  await page.unrouteAll({ behavior: "wait" });
  assert.equal(await page.getByLabel("Display name").inputValue(), "typed");

  const other = await page.context().newPage();
  await other.goto(`${pierhead.url}/`);
  await signOut(other);
  await signIn(other, key);
  await lookAt(page);
  await page.locator(".account", { hasText: "the second" }).waitFor();
  assert.equal(await page.getByLabel("Display name").count(), 0, "a reader cannot change settings");
  await page.context().close();
});

test("a dozen tabs of one browser work because tabs in the background hold no connection", async () => {
  const made = await bot("in-many-tabs");
  const first = await open({ path: `${addressOf(made)}/logs` });
  const context = first.context();
  for (let index = 0; index < 12; index += 1) {
    const page = await context.newPage();
    await page.goto(`${pierhead.url}${addressOf(made)}/logs`, { timeout: 10_000 });
    await page.locator(".top .live").getByText("Live updates").waitFor({ timeout: 10_000 });
    await setShown(page, false);
  }
  await goToPart(first, "Settings");
  await first.getByLabel("Display name").waitFor();
  await context.close();
});

test("an upload that failed under one name and was refused under another is created under the first name", async () => {
  await bot("taken");
  const folder = await mkdtemp(path.join(tmpdir(), "pierhead-folder-"));
  after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(path.join(folder, "pierhead.json"), JSON.stringify({ start: ["node", "server.js"] }));
  const page = await open({ path: "/host/new" });
  await page.getByRole("button", { name: "Upload" }).click();
  await page.locator("input[type=file]").setInputFiles(folder);
  await page.getByLabel("Config file").fill("pierhead.json");
  const create = async (name: string) => {
    await page.getByLabel("Name", { exact: true }).fill(name);
    await page.getByRole("button", { name: "Create and deploy" }).click();
  };
  const refusal = { status: 403, json: { detail: "This upload URL is not valid or has expired." } };
  await page.route("**/uploads/**", (route) => route.fulfill(refusal));
  await create("wanted");
  await page.getByRole("alert").getByText("This upload URL is not valid").waitFor();
  await page.unrouteAll({ behavior: "wait" });
  await create("taken");
  await page.getByRole("alert").getByText("already exists").waitFor();
  await create("wanted");
  await page.getByRole("heading", { name: "wanted", level: 1 }).waitFor({ timeout: 10_000 });
  await page.context().close();
});

test("a server that offers only images shows the image form instead of templates", async () => {
  const selfHosted = await startWorld({ PIERHEAD_MODE: "self_hosted", PIERHEAD_COMPUTE: "none" });
  const page = await selfHosted.open({ path: "/host/new" });
  await page.getByLabel("Image", { exact: true }).fill("registry.example.org/team/agent:1.4", { timeout: 5_000 });
  await page.getByLabel("Name", { exact: true }).fill("imaged");
  await page.getByRole("button", { name: "Create and deploy" }).click();
  await page.getByRole("heading", { name: "imaged", level: 1 }).waitFor();
  await page.context().close();
});
