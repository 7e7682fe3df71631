import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { eventually } from "../support/eventually.ts";
import { addressOf, assertNoBrowserErrors, copiesOf, startWorld } from "./world.ts";

const world = await startWorld();
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));

const made = await pierhead.client.createDeployment({
  body: {
    name: "a-deployment-with-a-name-that-is-as-long-as-people-make-them",
    source: "internal_template",
    source_config: { template_id: "node-server", deployment_type: "dev" },
    source_revision_config: {},
    secrets: [{ name: "A_RATHER_LONG_NAME_OF_A_VARIABLE", value: "x".repeat(200) }],
  },
});
const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
assert.equal((await pierhead.client.waitForRevision(ids)).status, "DEPLOYED");
await pierhead.client.createVariableGroup({
  body: { name: "model-keys", variables: [{ name: "OPENAI_API_KEY", value: "sk-1" }] },
});
await pierhead.client.createWebhook({ body: { url: `http://127.0.0.1:1/${"long/".repeat(20)}` } });
await pierhead.client.createWebhook({
  body: { url: "https://chat.invalid/hooks/x", format: "slack", types: ["alert.firing", "alert.resolved"] },
});
await pierhead.client.createMember({ body: { email: "ada@example.org", role: "reader" } });
await pierhead.client.createMember({
  body: { email: "payments@example.org", name: "Payments team", role: "deployer" },
});
await pierhead.client.createApiKey({ body: { name: "dashboard of the payments team", role: "deployer" } });
const labels = { region: "eu", gpu: "l4" };
await pierhead.client.createListener({
  body: { compute_type: "k8s", compute_id: "cluster", compute_config: {}, labels },
});
const endpoints = { auth_url: "https://a.invalid/authorize", token_url: "https://a.invalid/token" };
await pierhead.client.createOAuthProvider({
  body: { provider_id: "x", name: "X", client_id: "c", client_secret: "s", ...endpoints },
});

const url = "https://git.invalid/acme";
await pierhead.client.createIntegration({ body: { host: "gitlab", name: "Our GitLab", url, token: "t" } });

const own = addressOf(made);
/** Every page, with a check that it is loaded. */
const pages: Record<string, (page: Page) => Promise<void>> = {
  "/host/deployments": (page) => page.getByRole("main").getByRole("link", { name: made.name }).waitFor(),
  "/host/new": (page) => page.getByLabel("Plain Node server").waitFor(),
  [own]: (page) => page.getByRole("region", { name: "Active revision" }).waitFor(),
  [`${own}/revisions`]: (page) => page.getByText("Fetch the template").waitFor(),
  [`${own}/logs`]: (page) => page.getByText(/listening on port/).waitFor(),
  [`${own}/charts`]: (page) => page.getByRole("button", { name: "7 d" }).waitFor(),
  [`${own}/environment`]: (page) => page.getByLabel("Name 1").waitFor(),
  [`${own}/try`]: (page) => page.getByRole("button", { name: "Send" }).waitFor(),
  [`${own}/threads`]: (page) => page.getByText("does not speak the agent API").waitFor(),
  [`${own}/settings`]: (page) => page.getByRole("heading", { name: "About this deployment" }).waitFor(),
  "/host/approvals": (page) => page.getByRole("heading", { name: "Approvals", level: 1 }).waitFor(),
  "/host/logs": (page) => page.getByLabel("Query", { exact: true }).waitFor(),
  "/host/listeners": (page) => page.getByText("cluster", { exact: true }).waitFor(),
  "/host/providers": (page) => page.getByRole("button", { name: "Test X" }).waitFor(),
  "/host/integrations": (page) => page.getByRole("button", { name: "Delete Our GitLab" }).waitFor(),
  "/host/webhooks": (page) =>
    page
      .getByRole("button", { name: /^Delete / })
      .nth(1)
      .waitFor(),
  "/host/variable-groups": (page) => page.getByRole("button", { name: "Edit model-keys" }).waitFor(),
  "/host/alerts": (page) => page.getByRole("button", { name: "Turn off Failed" }).waitFor(),
  "/host/keys": (page) => page.getByText("(current)").waitFor(),
  "/host/members": (page) => page.getByText("ada@example.org", { exact: true }).waitFor(),
  "/host/quotas": (page) => page.getByText("Build minutes this month").first().waitFor(),
  "/host/audit": (page) => page.getByText("created the webhook").first().waitFor(),
};

const broken = await pierhead.client.createDeployment({
  body: {
    name: "broken-build",
    source: "internal_template",
    source_config: { template_id: "node-server", deployment_type: "dev", build_command: "node --no-such-option" },
    source_revision_config: {},
  },
});
const brokenIds = { deployment_id: broken.id, revision_id: broken.latest_revision_id ?? "" };
assert.equal((await pierhead.client.waitForRevision(brokenIds)).status, "BUILD_FAILED");
const failed = addressOf(broken);
pages[failed] = (page) => page.getByRole("region", { name: "Health" }).waitFor();
pages[`${failed}/revisions`] = (page) => page.locator(".line.first-bad").waitFor();
pages[`${failed}/revisions?only=failed`] = (page) => page.locator(".line.first-bad").waitFor();
pages[`${failed}/playground`] = (page) => page.getByRole("heading", { name: "Nothing serves yet" }).waitFor();
pages[`${failed}/revisions?only=served`] = (page) => page.getByText("No revision has served yet").waitFor();

interface Seen {
  /** Findings of axe-core by page. */
  light: Record<string, string[]>;
  dark: Record<string, string[]>;
  narrow: Record<string, string[]>;
  narrowDark: Record<string, string[]>;
  /** Width of the pages that are wider than the window, by page and width of the window. */
  wide: Record<string, number>;
  /** Words of tables that stand in two lines, by page and width of the window. */
  brokenWords: Record<string, string[]>;
  /** Red component, 0 to 255, of the page's background colour. */
  red: { light: number; dark: number };
}

/** Returns the words of tables that a line break cuts. Addresses may break anywhere, and so may words that are as long. */
function wordsInTwoLines(): string[] {
  const longest = 24;
  const found: string[] = [];
  for (const cell of document.querySelectorAll("table.list :is(td, th)")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text !== null; text = texts.nextNode()) {
      const said = text.nodeValue ?? "";
      for (const word of said.matchAll(/[\p{L}\p{N}]{2,}/gu)) {
        const end = word.index + word[0].length;
        const whole =
          (/\S*$/.exec(said.slice(0, word.index))?.[0] ?? "") + (/^\S*/.exec(said.slice(word.index))?.[0] ?? "");
        if (whole.length > longest) continue;
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, end);
        const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
        if (lines.size > 1) found.push(word[0]);
      }
    }
  }
  return found;
}

/** Inspects every page in light mode, in dark mode and on a narrow screen. Each is loaded once. */
async function inspectPages(): Promise<Seen> {
  const seen: Seen = {
    light: {},
    dark: {},
    narrow: {},
    narrowDark: {},
    wide: {},
    brokenWords: {},
    red: { light: 0, dark: 255 },
  };
  const page = await open();
  for (const [path, isThere] of Object.entries(pages)) {
    await page.goto(pierhead.url + path);
    await isThere(page);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      const found = await findings(page);
      if (found.length > 0) seen[colorScheme][path] = found;
      const colour = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      seen.red[colorScheme] = Number(/\d+/.exec(colour)?.[0]);
    }
    await page.emulateMedia({ colorScheme: "light" });
    for (const width of [1_440, 1_200, 1_100, 1_000, 768, 360]) {
      await page.setViewportSize({ width, height: 800 });
      const needed = await page.evaluate(() => document.documentElement.scrollWidth);
      if (needed > width) seen.wide[`${path} at ${width}`] = needed;
      const words = await page.evaluate(wordsInTwoLines);
      if (words.length > 0) seen.brokenWords[`${path} at ${width}`] = words;
    }
    const found = await findings(page);
    if (found.length > 0) seen.narrow[path] = found;
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 390, height: 844 });
    const foundInDark = await findings(page);
    if (foundInDark.length > 0) seen.narrowDark[path] = foundInDark;
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize({ width: 1_200, height: 800 });
  }
  await page.context().close();
  return seen;
}

const seen = await inspectPages();

test("axe-core has no finding on any page", () => {
  assert.deepEqual(seen.light, {});
});

test("axe-core has no finding in dark mode, and the colours follow the system's setting", () => {
  assert.deepEqual(seen.dark, {});
  assert.ok(seen.red.light > 200 && seen.red.dark < 60, JSON.stringify(seen.red));
});

test("every page fits windows of 360 to 1,440 px without horizontal scrolling, and axe-core has no finding on a phone", () => {
  assert.deepEqual(seen.wide, {});
  assert.deepEqual(seen.narrow, {});
  assert.deepEqual(seen.narrowDark, {}, "dark, 390 px");
});

test("no table cuts a word in windows of 360 to 1,440 px", () => {
  assert.deepEqual(seen.brokenWords, {});
});

test("axe-core has no finding in dialogs, in the palette and on the sign-in page", async () => {
  const page = await open({ key: null });
  await page.getByLabel("API key").waitFor();
  assert.deepEqual(await findings(page), [], "sign-in");
  await page.getByLabel("API key").fill(pierhead.apiKey);
  await page.keyboard.press("Enter");
  await page.getByRole("main").getByRole("link", { name: made.name }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("dialog").getByRole("option").first().waitFor();
  assert.deepEqual(await findings(page), [], "palette");
  await page.keyboard.press("Escape");
  await page.goto(`${pierhead.url}${own}/settings`);
  await page.getByRole("button", { name: "Delete this deployment …" }).click();
  await page.getByRole("dialog").getByText("This cannot be undone.").waitFor();
  assert.deepEqual(await findings(page), [], "delete");
  await page.context().close();
});

test("on a phone the action of a key stands beside its name, and the action of a page beside its title", async () => {
  const page = await open({ path: "/host/keys" });
  await page.setViewportSize({ width: 390, height: 844 });
  const row = page.getByRole("row").filter({ hasText: "dashboard of the payments team" });
  const topOf = async (part: Locator) => Math.round((await part.boundingBox())?.y ?? 0);
  const revoke = row.getByRole("button", { name: /^Revoke/ });
  const distance = Math.abs((await topOf(revoke)) - (await topOf(row.getByRole("cell").first())));
  assert.ok(distance <= 12, `${distance} px`);
  const title = await topOf(page.getByRole("heading", { level: 1 }));
  assert.ok(Math.abs(title - (await topOf(page.getByRole("button", { name: "New key" })))) <= 12);
  assert.deepEqual(await findings(page), []);
  await page.context().close();
});

test("links beside the settings of a deployment lead to each card, and the address keeps the card", async () => {
  const page = await open({ width: 1_440, path: `${own}/settings` });
  const links = page.getByRole("navigation", { name: "Settings of the deployment" });
  const card = page.getByRole("button", { name: "Delete this deployment …" });
  await card.waitFor();
  await page.setViewportSize({ width: 1_440, height: 500 });
  await links.getByRole("link", { name: "Delete" }).click();
  await page.waitForURL(/#delete$/);
  const isInView = () => card.evaluate((one) => one.getBoundingClientRect().bottom <= innerHeight);
  await eventually(isInView, (found) => found);
  assert.equal(await links.locator("[aria-current]").innerText(), "Delete");
  assert.deepEqual(await findings(page), []);
  await page.reload();
  await eventually(isInView, (found) => found);
  await page.context().close();
});

test("a form copied as curl does what the form does and contains no key", async () => {
  const page = await open({ path: "/host/new" });
  await page.getByLabel("Plain Node server").check();
  await page.getByLabel("Name", { exact: true }).fill("copied");
  const { curl = "", CLI: cli = "", TypeScript: typescript = "" } = await copiesOf(page.locator("form"));
  assert.ok(![curl, cli, typescript].join("").includes(pierhead.apiKey));
  assert.match(curl, /^curl -X POST 'http:\/\/127\.0\.0\.1:\d+\/v2\/deployments'/);
  assert.match(cli, /pierhead deploy --template node-server --name copied/);
  assert.match(typescript, /client\.createDeployment\(\{/);
  const body = /-d '(.*)'$/s.exec(curl)?.[1] ?? "";
  const answer = await pierhead.client.createDeployment({ body: JSON.parse(body) });
  assert.equal(answer.name, "copied");
  await page.context().close();
});

test("a user narrows the revisions to those that failed or served, and the address keeps it", async () => {
  const mended = await pierhead.client.createRevision({
    deployment_id: broken.id,
    body: { source_config: { build_command: "node --version" } },
  });
  await pierhead.client.waitForRevision({ deployment_id: broken.id, revision_id: mended.id });
  const page = await open({ path: `${failed}/revisions` });
  const [first, second] = [1, 2].map((number) => page.getByLabel(`Revision ${number}`, { exact: true }));
  await first?.waitFor();
  const outcome = page.getByRole("group", { name: "Outcome" });
  await outcome.getByRole("button", { name: "Served" }).click();
  await first?.waitFor({ state: "detached" });
  await second?.waitFor();
  await outcome.getByRole("button", { name: "Failed" }).click();
  await second?.waitFor({ state: "detached" });
  await page.reload();
  await first?.waitFor();
  assert.equal(await second?.count(), 0);
  assert.equal(await outcome.getByRole("button", { name: "Failed" }).getAttribute("aria-pressed"), "true");
  await outcome.getByRole("button", { name: "All" }).click();
  await second?.waitFor();
  await page.context().close();
});
