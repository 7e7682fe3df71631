import assert from "node:assert/strict";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { addMetrics } from "./metric-samples.ts";
import { addRefundTemplate } from "./refund-template.ts";
import { addressOf, assertNoBrowserErrors, goToPart, startWorld } from "./world.ts";

/** Keeps the documentation small. */
const bytesMax = 150_000;

/** Longer than a cold `npm install` of the agent server on a loaded machine. It is not a measurement. */
const timeoutMs = 400_000;

const directory = process.env["PIERHEAD_TEST_SCREENSHOTS"] ?? "screenshots";
await mkdir(directory, { recursive: true });
const templates = await mkdtemp(path.join(tmpdir(), "pierhead-templates-"));
after(() => rm(templates, { recursive: true, force: true }));
await cp("templates", templates, { recursive: true });
await mkdir(path.join(templates, "invoices"));
const broken = {
  "template.json": JSON.stringify({
    id: "invoices",
    name: "Invoices",
    description: "Reads invoices, and asks when one is odd.",
    config_path: "pierhead.json",
  }),
  "pierhead.json": JSON.stringify({ build: [["node", "build.js"]], start: ["node", "server.js"] }),
  "build.js": `console.log("checking types");
console.log("invoice.ts(3,20): error TS2307: Cannot find module './ledger.js'.");
process.exit(2);
`,
};
for (const [name, text] of Object.entries(broken)) await writeFile(path.join(templates, "invoices", name), text);

await addRefundTemplate(templates);

const world = await startWorld({ PIERHEAD_TEMPLATES_DIR: templates });
const { pierhead, open } = world;
after(() => assertNoBrowserErrors(world));

async function deploy(name: string, template_id: string, secrets: { name: string; value: string }[] = []) {
  const made = await pierhead.client.createDeployment({
    body: {
      ...{ name, secrets, source: "internal_template", source_revision_config: {} },
      source_config: { template_id, deployment_type: "dev" },
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
  await pierhead.client.waitForRevision(ids, { timeoutMs });
  return made;
}

async function take(page: Page, name: string): Promise<void> {
  const picture = await page.screenshot({ path: path.join(directory, `${name}.png`) });
  assert.ok(picture.length <= bytesMax, `${name}.png has ${picture.length} bytes`);
}

test("takes the pictures of the documentation from a running server and keeps them small", async () => {
  const invoices = await deploy("invoices", "invoices");
  const orders = await deploy("orders", "node-server", [
    { name: "CURRENCY", value: "EUR" },
    { name: "SHOP_URL", value: "https://shop.example.org" },
  ]);
  const support = await deploy("support", "refunds");
  const body = { secrets: [{ name: "CURRENCY", value: "USD" }] };
  const changed = await pierhead.client.createRevision({ deployment_id: orders.id, body });
  const ids = { deployment_id: orders.id, revision_id: changed.id };
  await pierhead.client.waitForRevision(ids, { timeoutMs });
  const wave = (ago: number) => Math.round(60 + 35 * Math.sin(ago / 4) + (ago % 5));
  await addMetrics(pierhead, orders.id, (ago) => ({
    ...{ requests: wave(ago), errors: ago === 21 ? 9 : 0, slow: Math.round(wave(ago) / 20) },
    ...{ cpu_cores: wave(ago) / 300, memory_mib: 90 + wave(ago) / 10 },
  }));
  const page = await open();
  await page.setViewportSize({ width: 1_120, height: 680 });
  const go = (to: string) => page.goto(pierhead.url + to);
  await page.getByRole("main").getByRole("link", { name: "support" }).waitFor();
  await page.getByText("% errors").first().waitFor();
  await take(page, "deployments");
  await go("/host/new");
  await page.getByLabel("Plain Node server").check();
  await page.getByLabel("Name", { exact: true }).fill("orders-eu");
  await page.evaluate(() => scrollTo(0, 0));
  await take(page, "new-deployment");
  await go(addressOf(orders));
  await page
    .getByRole("region", { name: "Active revision" })
    .getByText(/in total/)
    .waitFor();
  await page.getByRole("region", { name: "Last 24 hours" }).getByText(/MiB$/).waitFor();
  await take(page, "deployment");
  await goToPart(page, "Metrics");
  await page.getByRole("slider", { name: /^Latency/ }).waitFor();
  await take(page, "charts");
  await goToPart(page, "Variables");
  await page.getByLabel("Value of CURRENCY").fill("GBP");
  await page.getByRole("button", { name: "Add a variable" }).click();
  await page.getByLabel("Name 2").fill("TAX_RATE");
  await take(page, "environment");
  await go(`${addressOf(invoices)}/revisions`);
  await page.locator(".line.first-bad").waitFor();
  await take(page, "failed-build");
  await go(addressOf(support));
  await goToPart(page, "Playground");
  const log = page.getByRole("log");
  const say = async (text: string) => {
    await page.getByLabel("Message").fill(text);
    await page.getByRole("button", { name: "Send" }).click();
  };
  await page.setViewportSize({ width: 1_340, height: 760 });
  await say("Which kettle keeps water warm for tea?");
  await log.getByText("The Quay is the better one").waitFor();
  await say("The kettle from order 8841 arrived broken. I want my money back.");
  await log.getByRole("button", { name: "Approve", exact: true }).waitFor();
  await page.locator(".checkpoint").nth(7).waitFor();
  await take(page, "chat");
  await goToPart(page, "Threads");
  await page.locator(".thread").first().click();
  await page.getByRole("button", { name: "Approve", exact: true }).waitFor();
  await take(page, "threads");
  await page.setViewportSize({ width: 1_120, height: 680 });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 360, height: 640 });
  await go(addressOf(orders));
  await page.getByRole("region", { name: "Active revision" }).waitFor();
  await take(page, "narrow");
  await page.context().close();
});
