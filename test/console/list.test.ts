import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Locator } from "playwright-core";
import { sql } from "../../src/store/engine/sql.ts";
import { eventually } from "../support/eventually.ts";
import { addMetrics } from "./metric-samples.ts";
import { assertNoBrowserErrors, copiesOf, startWorld } from "./world.ts";

const world = await startWorld({ PIERHEAD_COMPUTE: "none" });
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));
const { client } = pierhead;

const commits = [
  {
    name: "billing",
    message: "Read invoices from the new ledger\n\nThe old one ends in May.",
    author: "Payments team",
  },
  { name: "orders", message: "Route returns to the warehouse that sent them", author: "Orders team" },
];
const deployed = [];
for (const { name, message, author } of commits) {
  const body = {
    name,
    source: "internal_docker" as const,
    source_config: { deployment_type: "prod" as const },
    source_revision_config: { image_uri: `127.0.0.1:1/${name}:1` },
  };
  const made = await client.createDeployment({ body });
  const { resources } = await client.listRevisions({ deployment_id: made.id });
  if (resources.length === 0) await client.createRevision({ deployment_id: made.id, body: {} });
  await pierhead.server.db.query(sql`
    update revisions set commit_message = ${message}, commit_author = ${author} where deployment_id = ${made.id}`);
  deployed.push(made);
}
const [billing, orders] = deployed;
assert.ok(billing && orders);
const tag = await client.createTag({ body: { name: "team", values: ["payments"] } });
const tag_value_ids = tag.values.map(({ id }) => id);
await client.putDeploymentTags({ deployment_id: billing.id, body: { tag_value_ids } });
await client.createListener({ body: { compute_type: "k8s", compute_id: "eu", compute_config: {} } });
await addMetrics(pierhead, billing.id, (ago) => ({
  ...{ requests: 100, errors: ago === 20 ? 90 : 0, slow: 0, cpu_cores: 0.1, memory_mib: 90 },
}));

test("a row shows the last commit with its author, the tags, and the requests and errors of a day", async () => {
  const page = await open();
  const row = page.locator("tbody tr").filter({ hasText: "billing" });
  await row.getByText("Read invoices from the new ledger", { exact: true }).waitFor();
  await row.getByText("% errors").waitFor();
  // The tags come with an answer of their own, and a loaded machine takes minutes until the page is open.
  for (const words of ["Payments team", "payments", "just now|(s|min) ago", "[34],\\d00\\n", "2\\.\\d+ % errors"])
    await eventually(
      () => row.innerText(),
      (text) => new RegExp(words).test(text),
      { what: words },
    );
  assert.equal(await row.locator(".spark-error").count(), 1, "one hour had errors");
  const more = row.getByRole("button", { name: "More for billing" });
  await more.click();
  await page.getByRole("menuitem", { name: "Variables" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("menu").waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "More for billing");
  const quiet = page.locator("tbody tr").filter({ hasText: "orders" });
  assert.match(await quiet.innerText(), /No requests/);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await findings(page), [], colorScheme);
  }
  await page.getByRole("button", { name: "Show as cards" }).click();
  await page.waitForURL(/layout=cards/);
  assert.deepEqual(await findings(page), [], "cards");
  await row.getByText("Read invoices from the new ledger", { exact: true }).waitFor();
  await page.context().close();
});

test("a phone shows commit and author in each row and selects all rows", async () => {
  const page = await open();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByText("Route returns to the warehouse that sent them").waitFor();
  await page.getByText("Orders team").waitFor();
  await page.getByText("Select all").click();
  await page.getByText("2 selected").waitFor();
  assert.deepEqual(await findings(page), []);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  const bar = page.getByRole("region", { name: "Selected deployments" });
  await bar.getByRole("button", { name: "Restart" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Restarts the replicas of 2 deployments").waitFor();
  await dialog.getByRole("button", { name: "Restart" }).click();
  await page.getByText("2 of 2 deployments failed. ").waitFor();
  await page.context().close();
});

test("on a phone the filters take one line, and a sheet has the choices with the number of the active ones", async () => {
  const page = await open();
  await page.setViewportSize({ width: 390, height: 844 });
  const line = page.getByRole("search");
  const rows = page.locator("tbody tr");
  await rows.nth(1).waitFor();
  const button = line.getByRole("button", { name: /^Filters/ });
  await button.waitFor();
  const heightOf = async (part: Locator) => (await part.boundingBox())?.height ?? 999;
  assert.ok((await heightOf(line)) <= (await heightOf(line.getByRole("searchbox"))) + 4, "one line");
  await button.click();
  const sheet = page.getByRole("dialog", { name: "Filter and sort" });
  await sheet.getByLabel("Tag", { exact: true }).selectOption({ label: "team: payments" });
  await sheet.getByLabel("Type").selectOption({ label: "Production" });
  await page.waitForURL(({ searchParams: found }) => found.has("type") && found.get("q") === "tag:team=payments");
  await rows.filter({ hasText: "orders" }).waitFor({ state: "detached" });
  // Rows of an older search are pale.
  await page.waitForFunction(() => getComputedStyle(document.querySelector("tbody") as Element).opacity === "1");
  assert.deepEqual(await findings(page), []);
  await sheet.getByRole("button", { name: "Show deployments" }).click();
  await sheet.waitFor({ state: "detached" });
  await line.getByRole("button", { name: "Filters, 2 active" }).click();
  await sheet.getByRole("button", { name: "Drop the filters" }).click();
  await page.waitForURL(({ searchParams: found }) => !found.has("type") && !found.has("q"));
  await page.keyboard.press("Escape");
  await rows.nth(1).waitFor();
  await line.getByRole("button", { name: "Filters", exact: true }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await page.context().close();
});

test("the list is found by commit, author, repository, tag and listener, and the address keeps it", async () => {
  const page = await open();
  const rows = page.locator("tbody tr");
  const box = page.getByLabel("Filter deployments");
  for (const [text, name] of [
    ["new ledger", "billing"],
    ["orders team", "orders"],
    ["127.0.0.1:1/billing", "billing"],
  ] as const) {
    await box.fill(text);
    await page.waitForURL((url) => url.searchParams.get("q") === text);
    await page.waitForFunction((wanted) => document.querySelectorAll("tbody tr").length === wanted, 1);
    await rows.filter({ hasText: name }).waitFor();
  }
  await box.fill("");
  await page.getByLabel("Tag", { exact: true }).selectOption({ label: "team: payments" });
  await page.waitForURL((url) => url.searchParams.get("q") === "tag:team=payments");
  await rows.filter({ hasText: "orders" }).waitFor({ state: "detached" });
  await page.reload();
  await rows.filter({ hasText: "billing" }).waitFor();
  assert.equal(await rows.count(), 1);
  assert.equal(await page.getByLabel("Tag", { exact: true }).inputValue(), "team=payments");
  const { CLI: cli = "" } = await copiesOf(page.locator(".page-head"));
  assert.match(cli, /list --tag team=payments/);
  await box.fill("tag:payments orders team");
  await page.getByText("No deployments match these filters.").waitFor();
  await box.fill("tag:team=unknown");
  await page.getByText("No tag has the value team=unknown.").waitFor();
  await client.createTag({ body: { name: "payer", values: ["payments"] } });
  await page.reload();
  await box.fill("tag:payments");
  await page.getByText("Several tags have the value payments. Write tag:").waitFor();
  await box.fill("listener:nowhere");
  await page.getByText("No listener is called nowhere.").waitFor();
  await page.getByLabel("Listener").selectOption("eu");
  await page.getByText("No deployments match these filters.").waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Show all deployments" }).click();
  await rows.nth(1).waitFor();
  await page.context().close();
});

test("the list is filtered by a tag with blanks and quotes, and an unfinished field hides nothing", async () => {
  const odd = await client.createTag({ body: { name: "cost = center", values: ['R&D "core" 100%'] } });
  const ids = [...tag_value_ids, ...odd.values.map(({ id }) => id)];
  await client.putDeploymentTags({ deployment_id: billing.id, body: { tag_value_ids: ids } });
  const page = await open();
  const rows = page.locator("tbody tr");
  const choice = page.getByLabel("Tag", { exact: true });
  await choice.selectOption({ label: 'cost = center: R&D "core" 100%' });
  await rows.filter({ hasText: "orders" }).waitFor({ state: "detached" });
  await page.reload();
  await rows.filter({ hasText: "billing" }).waitFor();
  assert.equal(await rows.count(), 1);
  assert.equal(await choice.inputValue(), 'cost = center=R&D "core" 100%');
  await choice.selectOption("");
  await page.waitForURL((url) => !url.searchParams.has("q"));
  await rows.nth(1).waitFor();
  await page.getByLabel("Filter deployments").fill("tag: listener: orders");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  await rows.filter({ hasText: "orders" }).waitFor();
  await page.context().close();
});

test("the palette shows pages before deployments that only a commit finds", async () => {
  await pierhead.server.db.query(sql`
    update revisions set commit_message = 'Show approvals in a list' where deployment_id = ${orders.id}`);
  const page = await open();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("approvals");
  await page.getByRole("option", { name: "orders" }).first().waitFor();
  const found = await page.getByRole("option").allInnerTexts();
  assert.deepEqual(
    found.map((text) => text.split("\n")[0]),
    ["Approvals", "orders"],
  );
  await page.context().close();
});
