import assert from "node:assert/strict";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { addMetrics } from "./metric-samples.ts";
import { addRefundTemplate } from "./refund-template.ts";
import { makeThreads, type Shown, screens } from "./screens.ts";
import { addressOf, assertNoBrowserErrors, signIn, startWorld } from "./world.ts";

/** Keeps the documentation small. */
const bytesMax = 200_000;

/** Longer than a cold `npm install` of the agent server on a loaded machine. It is not a measurement. */
const timeoutMs = 400_000;

const directory = process.env["PIERHEAD_TEST_SCREENSHOTS"] ?? "screenshots";
/** Widths for a review, such as `1440,390`. Empty: the pictures of the documentation. */
const reviewWidths = (process.env["PIERHEAD_TEST_REVIEW"] ?? "").split(",").map(Number).filter(Boolean);
const isReview = reviewWidths.length > 0;
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

/** Makes what the pages of the settings show. None of the addresses exists. */
async function makeSettings(): Promise<void> {
  const { client } = pierhead;
  await client.createMember({ body: { email: "ada@example.org", name: "Ada Lindqvist", role: "admin" } });
  await client.createMember({ body: { email: "jonas@example.org", name: "Jonas Weber", role: "deployer" } });
  await client.createMember({ body: { email: "mei@example.org", role: "reader" } });
  await client.createApiKey({ body: { name: "ci", role: "deployer" } });
  await client.createApiKey({ body: { name: "dashboard", role: "reader" } });
  await client.createWebhook({ body: { url: "https://ci.invalid/pierhead", types: ["revision.status"] } });
  await client.createWebhook({ body: { url: "https://chat.invalid/hooks/x", format: "slack", description: "#ops" } });
  await client.createListener({ body: { compute_type: "k8s", compute_id: "eu-cluster", compute_config: {} } });
  const git = { host: "gitlab" as const, name: "Our GitLab", url: "https://gitlab.invalid/acme", token: "glpat-0" };
  await client.createIntegration({ body: git });
}

/** The pictures of the documentation. */
const modes: Mode[] = [{ suffix: "", width: 1_120, height: 680, isDark: false }];
/** All pages in all forms, for a review. */
const reviewModes: Mode[] = reviewWidths.flatMap((width) =>
  [false, true].map((isDark) => ({
    suffix: `-${width}-${isDark ? "dark" : "light"}`,
    ...{ width, height: width < 600 ? 844 : 900, isDark },
  })),
);

interface Mode {
  suffix: string;
  width: number;
  height: number;
  isDark: boolean;
}

/** Three panes need more room. */
const wide = ["chat", "threads", "state", "configuration", "compared-runs"];

async function takeAll(page: Page, shown: Shown, mode: Mode): Promise<void> {
  const { suffix, width, height, isDark } = mode;
  await page.emulateMedia({ colorScheme: isDark ? "dark" : "light" });
  for (const { name, open: show } of screens) {
    const isWide = suffix === "" && wide.includes(name);
    await page.setViewportSize(isWide ? { width: 1_340, height: 760 } : { width, height });
    await show(page, shown);
    // The last screen is the sign-in.
    await take(page, `${name}${suffix}`);
  }
  // A phone hides the pages in a menu, and the sign-in waits for them.
  await page.setViewportSize({ width: 1_340, height: 760 });
  await signIn(page, pierhead.apiKey);
}

async function take(page: Page, name: string): Promise<void> {
  const picture = await page.screenshot({ path: path.join(directory, `${name}.png`) });
  assert.ok(isReview || picture.length <= bytesMax, `${name}.png has ${picture.length} bytes`);
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
  const shared = async (name: string, variables: { name: string; value: string; is_secret?: boolean }[]) =>
    (await pierhead.client.createVariableGroup({ body: { name, variables } })).id;
  const keys = ["OPENAI_API_KEY", "TAVILY_API_KEY"].map((name) => ({ name, value: "sk-1" }));
  const used = await shared("model-keys", keys);
  await shared("shop", [{ name: "SHOP_URL", value: "https://shop.example.org", is_secret: false }]);
  const list = { variable_group_ids: [used] };
  const grouped = await pierhead.client.putDeploymentVariableGroups({ deployment_id: support.id, body: list });
  const groupedIds = { deployment_id: support.id, revision_id: grouped.latest_revision_id ?? "" };
  await pierhead.client.waitForRevision(groupedIds, { timeoutMs });
  await makeSettings();
  const wave = (ago: number) => Math.round(60 + 35 * Math.sin(ago / 4) + (ago % 5));
  await addMetrics(pierhead, orders.id, (ago) => ({
    ...{ requests: wave(ago), errors: ago === 21 ? 9 : 0, slow: Math.round(wave(ago) / 20) },
    ...{ cpu_cores: wave(ago) / 300, memory_mib: 90 + wave(ago) / 10 },
  }));
  const page = await open({ width: 1_340 });
  const made = { pierhead, orders, support, invoices };
  const shown = { ...made, threads: await makeThreads(page, made) };
  for (const mode of isReview ? reviewModes : modes) await takeAll(page, shown, mode);
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 360, height: 640 });
  await page.goto(pierhead.url + addressOf(orders));
  await page.getByRole("region", { name: "Active revision" }).waitFor();
  await take(page, "narrow");
  await page.context().close();
});
