import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { appendLogEntries, type LogLevelName } from "../../src/store/logs/log-entries.ts";
import { eventually } from "../support/eventually.ts";
import { addressOf, assertNoBrowserErrors, startWorld } from "./world.ts";

const world = await startWorld({ PIERHEAD_COMPUTE: "none" });
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));

const make = (name: string) =>
  pierhead.client.createDeployment({
    body: {
      name,
      source: "internal_docker",
      source_config: {},
      source_revision_config: { image_uri: `127.0.0.1:1/${name}:1` },
    },
  });
const [support, billing] = [await make("support"), await make("billing")];
const revisionIds = new Map<string, string>();
for (const { id } of [support, billing]) {
  const made = await pierhead.client.createRevision({ deployment_id: id, body: {} });
  revisionIds.set(id, made.id);
}
const runId = "1f0a3c3e-0000-4000-8000-000000000001";
const write = (of: typeof support, lines: [agoMs: number, level: LogLevelName, message: string][]) =>
  appendLogEntries(
    pierhead.server.db,
    lines.map(([agoMs, level, message]) => ({
      ...{ deployment_id: of.id, revision_id: revisionIds.get(of.id) ?? "", kind: "deploy", level, message },
      ...{ replica_id: `${of.name}-1`, stream: "stdout", line_key: null, logged_at: new Date(Date.now() - agoMs) },
    })),
  );
await write(
  support,
  Array.from({ length: 2_000 }, (_, index) => [
    60_000 + index * 1_000,
    index % 10 === 0 ? "WARNING" : "INFO",
    `run finished ${index}`,
  ]),
);
await write(billing, [
  [90_000, "ERROR", JSON.stringify({ msg: "charge timed out", run_id: runId, order: { id: 8841 } })],
]);

/** A search on a busy machine ends after two seconds with what it has, and the user lets it count on. */
async function untilCounted(page: Page, text: string): Promise<void> {
  const older = page.getByRole("button", { name: "Count older lines", disabled: false });
  const isCounted = async () => {
    if (await older.isVisible()) await older.click();
    return page.getByText(text).isVisible();
  };
  await eventually(isCounted, Boolean, { timeoutMs: 30_000, what: text });
}

const row = (page: Page, text: string) => page.locator(".ll").filter({ hasText: text });

test("a user finds a line of one deployment among all, narrows by facet, opens it and shares it by its link", async () => {
  const page = await open({ path: "/" });
  await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link", { name: "Logs" }).click();
  await page.getByRole("heading", { name: "Logs", level: 1 }).waitFor();
  await row(page, "run finished 0").waitFor();
  await untilCounted(page, "2,001 of 2,001 lines match");
  assert.ok((await page.locator(".ll").count()) < 150, "only the visible rows are in the page");

  const query = page.getByLabel("Query", { exact: true });
  await query.pressSequentially("lev");
  await page.getByRole("option", { name: "level:" }).waitFor();
  for (const key of ["ArrowDown", "Enter", "ArrowDown", "ArrowDown", "Enter"]) await query.press(key);
  assert.equal(await query.inputValue(), "level:error");
  await query.pressSequentially(" deployment:b");
  await page.getByRole("option", { name: "billing 1" }).waitFor();
  assert.deepEqual(await findings(page), [], "completions");
  await query.press("Escape");
  await query.fill('"charge timed out" levle:error');
  await query.press("Enter");
  await page.getByRole("alert").getByText("Character 20: There is no field 'levle'").waitFor();
  await query.fill('"timed out"');
  await query.press("Enter");
  await untilCounted(page, "1 of 2,001 lines match");
  await page.getByRole("region", { name: "Lines by level" }).getByRole("button", { name: /error/ }).click();
  await page.waitForURL(/q=%22timed.out%22.level%3Aerror/);
  await page.goto(`${pierhead.url}/host/logs?q=${encodeURIComponent('"timed out"')}`);
  await untilCounted(page, "1 of 2,001 lines match");
  assert.equal(await query.inputValue(), '"timed out"', "a link keeps the quotes of a phrase");
  await page.goBack();
  await row(page, "charge timed out").getByRole("button").click();
  const details = page.locator(".log-detail");
  await details.getByText('"id": 8841').waitFor();
  await details.getByText(runId, { exact: true }).waitFor();
  const revision = details.getByRole("link", { name: /^\d+$/ });
  assert.match((await revision.getAttribute("href")) ?? "", new RegExp(`${addressOf(billing)}\\?revision=`));
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await findings(page), [], colorScheme);
  }
  await page.reload();
  await details.getByText('"id": 8841').waitFor();
  await details.getByRole("button", { name: "What happened around it" }).click();
  await row(page, "run finished 30").waitFor();
  await details.getByText('"id": 8841').waitFor();
  const aboveIt = await page.locator(".ll.open").evaluate((line) => {
    const list = line.closest(".log-scroll") as HTMLElement;
    return line.getBoundingClientRect().top - list.getBoundingClientRect().top;
  });
  assert.ok(aboveIt > 48, "the lines before it are visible");
  await page.context().close();
});

test("the page follows new lines, reads older ones on scrolling up, and fits a phone", async () => {
  const page = await open();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${pierhead.url}/host/logs`);
  await row(page, "run finished 0").waitFor();
  await write(billing, [[0, "CRITICAL", "the ledger is away"]]);
  await row(page, "the ledger is away").waitFor();
  await untilCounted(page, "2,002 of 2,002 lines match");
  assert.deepEqual(await findings(page), []);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  const list = page.getByRole("region", { name: "Log lines" });
  await list.evaluate((element) => element.scrollTo({ top: 0 }));
  await page.getByText("1,001 lines shown").waitFor({ state: "attached" });
  await row(page, "run finished 499").waitFor({ state: "attached" });
  assert.ok((await list.evaluate(({ scrollTop }) => scrollTop)) > 20_000, "older lines do not move the shown ones");
  assert.ok(await row(page, "run finished 499").isVisible());
  await page.getByRole("button", { name: "Filter" }).click();
  await page
    .getByRole("region", { name: "Lines by deployment" })
    .getByRole("button", { name: /billing/ })
    .click();
  await untilCounted(page, "2 of 2,002 lines match");
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("menuitem", { name: "Save this view …" }).click();
  await page.getByLabel("Name").fill("Billing");
  await page.getByRole("button", { name: "Save the view" }).click();
  await page.goto(`${pierhead.url}/host/logs`);
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("menuitem", { name: /Billing/ }).click();
  await untilCounted(page, "2 of 2,002 lines match");
  await page.context().close();
});
