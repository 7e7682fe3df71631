import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import type { DeploymentReplicas } from "../../src/contract/deployments/replica.ts";
import { appId, privateKeyPem, startGithub, webhookSecret } from "../hosts/github-server.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startOAuthServer } from "../support/oauth-server.ts";
import { addMetrics } from "./metric-samples.ts";
import { addressOf, assertNoBrowserErrors, copiesOf, goToPart, startWorld } from "./world.ts";

const repository = await createAgentRepository(nodeAgent("picked"));
after(() => repository[Symbol.asyncDispose]());
const github = await startGithub({ "acme/other-bot": "/nowhere", "acme/support-bot": repository.directory });
after(() => github[Symbol.asyncDispose]());
const world = await startWorld({
  PIERHEAD_GITHUB_URL: github.origin,
  PIERHEAD_GITHUB_APP_ID: appId,
  PIERHEAD_GITHUB_PRIVATE_KEY: privateKeyPem,
  PIERHEAD_GITHUB_WEBHOOK_SECRET: webhookSecret,
});
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));
const { client } = pierhead;

const made = await client.createDeployment({
  body: {
    name: "measured",
    source: "internal_template",
    source_config: { template_id: "node-server", deployment_type: "dev" },
    source_revision_config: {},
    secrets: [
      { name: "TONE", value: "kind" },
      { name: "OLD", value: "1" },
    ],
  },
});
const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
assert.equal((await client.waitForRevision(ids)).status, "DEPLOYED");

test("the GitHub App is installed from its page, and a repository that it offers is deployed", async () => {
  const page = await open({ path: "/host/integrations" });
  await page.getByRole("button", { name: "Install the GitHub App" }).click();
  await page.waitForURL((url) => url.href.startsWith(`${github.origin}/apps/pierhead/installations/new`));
  const state = new URL(page.url()).searchParams.get("state") ?? "";
  // Simulates GitHub's page after the user has chosen.
  github.state.installations.set(41, { account: "acme", created_at: new Date().toISOString() });
  const back = new URLSearchParams({ state, setup_action: "install", installation_id: "41" });
  await page.goto(`${pierhead.url}/v2/auth/setup/github?${back}`);
  await page.getByRole("link", { name: "Go back" }).click();
  await page.getByRole("button", { name: "Delete acme" }).waitFor();
  assert.equal(new URL(page.url()).pathname, "/host/integrations");

  await page.goto(`${pierhead.url}/host/new`);
  await page.getByRole("button", { name: "Git repository" }).click();
  await page.getByLabel("Integration").selectOption({ label: "acme" });
  await page.getByLabel("Repositories").selectOption({ label: "acme/support-bot" });
  assert.equal(await page.getByLabel("Repository", { exact: true }).inputValue(), `${github.origin}/acme/support-bot`);
  assert.equal(await page.getByLabel("Branch, refs/tags/… or commit").inputValue(), "main");
  await page.getByLabel("Config file").fill("pierhead.json");
  await page.getByLabel("Name", { exact: true }).fill("support");
  await page.getByRole("button", { name: "Create and deploy" }).click();
  await page.locator(".revision.active").waitFor();
  assert.ok(github.state.gitFetches > 0, "the build fetched the repository from the host");
  // The GitHub page is not part of the console.
  world.browserErrors.splice(0);
  await page.context().close();
});

test("an invalid image is rejected in the form, and a server that cannot run images says why", async () => {
  const page = await open({ path: "/host/new" });
  await page.getByRole("button", { name: "Image", exact: true }).click();
  await page.getByLabel("Name", { exact: true }).fill("from-image");
  const image = page.getByLabel("Image", { exact: true });
  await image.fill("Not An Image");
  await page.locator("[aria-invalid=true]").waitFor();
  assert.ok(await page.getByRole("button", { name: "Create and deploy" }).isDisabled());
  assert.equal(await page.getByLabel("Type").count(), 0, "an image has none");
  await image.fill("registry.example.org/team/agent:1.4");
  await page.getByRole("button", { name: "Create and deploy" }).click();
  await page
    .getByText(/needs a container engine.*PIERHEAD_COMPUTE=docker/)
    .first()
    .waitFor();
  const { resources } = await client.listDeployments({ name: "from-image" });
  const [found] = resources;
  assert.deepEqual(
    [found?.source, found?.source_revision_config.image_uri],
    ["external_docker", "registry.example.org/team/agent:1.4"],
  );
  await page.context().close();
});

test("a test sign-in leads to the provider, and its result appears automatically", async () => {
  await using provider = await startOAuthServer();
  const endpoints = { auth_url: `${provider.url}/authorize`, token_url: `${provider.url}/token` };
  const page = await open({ path: "/host/providers" });
  await page.getByRole("button", { name: "New provider" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("ID", { exact: true }).fill("tried");
  await form.getByLabel("Name", { exact: true }).fill("Tried ID");
  await form.getByLabel("Authorization URL").fill(endpoints.auth_url);
  await form.getByLabel("Token URL").fill(endpoints.token_url);
  await form.getByLabel("Client ID").fill("client");
  await form.getByLabel("Client secret").fill("secret");
  assert.ok(
    (await form.innerText()).includes(`${pierhead.url}/v2/auth/callback/tried`),
    "the form shows the redirect URI",
  );
  await form.getByRole("button", { name: "Create" }).click();
  await page.getByRole("button", { name: "Test Tried ID" }).click();
  const dialog = page.getByRole("dialog", { name: "Test a sign-in" });
  await dialog.getByText("pending").waitFor();
  assert.deepEqual(await findings(page), []);
  const link = new URL((await dialog.getByRole("link").getAttribute("href")) ?? "");
  assert.deepEqual([link.origin, link.searchParams.get("code_challenge_method")], [provider.url, "S256"]);
  const answer = new URLSearchParams({ code: "granted", state: link.searchParams.get("state") ?? "" });
  assert.equal((await fetch(`${pierhead.url}/v2/auth/callback/tried?${answer}`)).status, 200);
  await dialog.getByText("The provider issued a token").waitFor();
  assert.equal(provider.calls.at(-1)?.form["code"], "granted");
  await page.context().close();
});

test("charts show the metrics, also as text, and mark when a revision began to serve", async () => {
  // This deployment has no replicas, whose own metrics would be added.
  const body = { name: "drawn", source: "internal_source" as const, source_config: {}, source_revision_config: {} };
  const drawn = await client.createDeployment({ body });
  await addMetrics(pierhead, drawn.id, () => ({ requests: 12, errors: 3, cpu_cores: 0.25, memory_mib: 128, slow: 0 }));
  const page = await open({ path: `${addressOf(drawn)}/charts` });
  const chart = (name: string) => page.getByRole("slider", { name: `${name} over time` });
  const said = async (name: string) => (await chart(name).getAttribute("aria-valuetext")) ?? "";
  await chart("Requests").waitFor();
  assert.match(await said("Requests"), /: requests 12, errors 3$/);
  assert.match(await said("Latency"), /: p50 \d+ ms, p95 \d+ ms, p99 \d+ ms$/);
  assert.match(await said("CPU, cores"), /: used 0.25$/);
  assert.match(await said("Memory"), /: used 128 MiB$/);
  const lines = page.locator(".chart path.line-0");
  assert.ok((await lines.first().getAttribute("d"))?.split("L").length ?? 0 > 20, "the chart draws a line");
  await chart("Requests").focus();
  await page.keyboard.press("Home");
  await page.locator(".cursor").nth(4).waitFor({ state: "attached" });
  assert.match(await said("Memory"), /used –$/, "all charts show the first minute, in which nothing was measured");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".cursor").count(), 0);
  await chart("Latency").hover({ position: { x: 300, y: 60 } });
  assert.equal(await page.locator(".cursor").count(), 5, "one line in each chart");
  await page.getByRole("button", { name: "Table" }).click();
  const table = page.getByRole("region", { name: "Metrics as a table" });
  await table.getByRole("cell", { name: "128 MiB" }).first().waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Charts" }).click();
  for (const span of ["6 h", "1 d", "7 d"]) {
    const asked = page.waitForResponse((answer) => answer.url().includes("/metrics?"));
    await page.getByRole("button", { name: span }).click();
    assert.equal((await asked).status(), 200);
    await chart("Replicas").waitFor();
  }
  await page.reload();
  await page.getByRole("button", { name: "7 d", pressed: true }).waitFor();
  const { replicas } = await client.listReplicas({ deployment_id: made.id });
  const use = { cpu_cores: 0.25, memory_mib: 128 };
  const replica_usage = [{ replica_id: replicas[0]?.id ?? "", ...use }];
  await addMetrics(pierhead, made.id, () => ({ requests: 0, errors: 0, ...use, slow: 0, replica_usage }));
  await page.goto(`${pierhead.url}${addressOf(made)}/charts`);
  const mark = page.locator(".chart .marker.revision").first();
  await mark.waitFor({ state: "attached" });
  assert.equal(await mark.locator("text").textContent(), "1", "the mark has the number of its revision");
  const isLimited = replicas[0]?.limits.memory === "enforced";
  const memory = () => said("Memory");
  await eventually(memory, (text) => /used 128 MiB/.test(text) && /, limit [\d,]+ MiB$/.test(text) === isLimited);
  await page.goto(pierhead.url + addressOf(made));
  const region = page.getByRole("region", { name: "Replicas" });
  await region.getByText("0.25 cores, 128 MiB").waitFor();
  // While servers are upgraded one after the other, a page may get an answer of the older one.
  await page.route(/\/replicas$/, async (route) => {
    const response = await route.fetch();
    const body = (await response.json()) as DeploymentReplicas;
    const older = body.replicas.map(({ cpu_cores: _cores, memory_mib: _memory, ...replica }) => replica);
    await route.fulfill({ response, json: { ...body, replicas: older } });
  });
  await page.reload();
  await region.getByText("no restarts").waitFor();
  assert.doesNotMatch(await region.innerText(), /cores/);
  await page.context().close();
});

test("the charts show tokens where the agent reports them", async () => {
  const body = { name: "talkative", source: "internal_source" as const, source_config: {}, source_revision_config: {} };
  const one = await client.createDeployment({ body });
  const minute = { requests: 1, errors: 0, cpu_cores: 0.25, memory_mib: 128, slow: 0 };
  await addMetrics(pierhead, one.id, () => ({ ...minute, input_tokens: 1_840, output_tokens: 231 }));
  const page = await open({ path: `${addressOf(one)}/charts` });
  const tokens = page.getByRole("slider", { name: "Tokens over time" });
  await tokens.waitFor();
  assert.match((await tokens.getAttribute("aria-valuetext")) ?? "", /: input 1,840, output 231$/);
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  assert.deepEqual(await findings(page), []);
  await page.context().close();
});

test("charts name the time that they count requests in, and CPU and memory are left out where no host measures them", async () => {
  const body = { name: "no-usage", source: "internal_source" as const, source_config: {}, source_revision_config: {} };
  const one = await client.createDeployment({ body });
  await addMetrics(pierhead, one.id, () => ({ requests: 12, errors: 0, cpu_cores: null, memory_mib: null, slow: 0 }));
  const page = await open({ path: `${addressOf(one)}/charts` });
  const requests = page.locator("figure").filter({ has: page.getByRole("slider", { name: "Requests over time" }) });
  await requests.getByText("in 1 min").waitFor();
  assert.equal(await page.getByRole("slider", { name: /^(CPU|Memory|Tokens)/ }).count(), 0);
  const [first, second] = [requests, page.locator("figure").nth(1)];
  await page.setViewportSize({ width: 1_000, height: 800 });
  await eventually(
    async () => [(await first.boundingBox())?.y, (await second.boundingBox())?.y],
    ([a, b]) => a === b,
    { what: "two charts stand beside each other" },
  );
  await page.getByRole("slider", { name: "Replicas over time" }).waitFor();
  await page.getByRole("button", { name: "7 d" }).click();
  await requests.getByText("in 30 min").waitFor();
  await page.context().close();
});

test("the environment page explains what deploying staged changes does and can discard them", async () => {
  const page = await open({ path: `${addressOf(made)}/environment` });
  const staged = page.getByRole("region", { name: "Staged changes" });
  await page.getByLabel("Name 1").waitFor();
  assert.equal(await staged.count(), 0, "nothing was changed");
  assert.equal(await page.getByLabel("Value of TONE").getAttribute("type"), "password");
  await page.getByLabel("Value of TONE").fill("stern");
  await page.getByRole("button", { name: "Remove OLD" }).click();
  const shown = await staged.innerText();
  for (const words of ["Changed: TONE", "Removed: OLD", "Deploying runs the current code", "Nothing is built"])
    assert.ok(shown.includes(words), shown);
  await goToPart(page, "Logs");
  await page.getByLabel("Query", { exact: true }).waitFor();
  await goToPart(page, "Variables");
  assert.equal(await staged.innerText(), shown, "another page loses no changes");
  await staged.getByRole("button", { name: "Undo the change of OLD" }).click();
  await page.getByRole("button", { name: "Remove OLD" }).waitFor();
  assert.match(await staged.innerText(), /1 change, not deployed yet\s+Changed: TONE/);
  await staged.getByRole("button", { name: "Discard" }).click();
  await staged.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Show values" }).click();
  assert.equal(await page.getByLabel("Value of TONE").inputValue(), "kind");
  assert.equal((await client.listRevisions({ deployment_id: made.id })).resources.length, 1);
  await page.context().close();
});

test("a removed variable stays in the table until the change is deployed, and can be put back", async () => {
  const page = await open({ path: `${addressOf(made)}/environment` });
  const table = page.getByRole("table", { name: "Variables" });
  const rows = table.getByRole("row");
  await page.getByRole("button", { name: "Remove OLD" }).click();
  const removed = rows.filter({ hasText: "removed" });
  assert.match(await removed.innerText(), /OLD/);
  await page.getByRole("button", { name: "Remove TONE" }).click();
  assert.equal(await removed.count(), 2, "the last one too");
  assert.equal(await table.getByRole("textbox").count(), 0);
  await page.getByRole("button", { name: "Add a variable" }).click();
  await page.keyboard.type("FRESH");
  await rows.filter({ hasText: "new" }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Put OLD back" }).click();
  await page.getByRole("button", { name: "Remove OLD" }).waitFor();
  await page.getByRole("region", { name: "Staged changes" }).getByRole("button", { name: "Discard" }).click();
  await page.getByRole("button", { name: "Remove TONE" }).waitFor();
  assert.equal(await removed.count(), 0);
  await page.context().close();
});

test("on a phone the bar of staged changes takes at most 96 px, and a button shows what deploying them does", async () => {
  const page = await open({ path: `${addressOf(made)}/environment` });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByLabel("Value of TONE").fill("stern");
  await page.getByRole("button", { name: "Remove OLD" }).click();
  const staged = page.getByRole("region", { name: "Staged changes" });
  const heightOf = async () => (await staged.boundingBox())?.height ?? 999;
  assert.match(await staged.innerText(), /^2 changes, not deployed yet/);
  assert.ok((await heightOf()) <= 96, `${await heightOf()} px`);
  assert.ok(await staged.getByRole("button", { name: "Deploy these changes" }).isEnabled());
  await staged.getByRole("button", { name: "Details" }).click();
  await staged.getByText("Deploying runs the current code").waitFor();
  assert.match(await staged.innerText(), /Changed: TONE\s+Removed: OLD/);
  assert.deepEqual(await findings(page), []);
  await staged.getByRole("button", { name: "Undo the change of OLD" }).click();
  await page.getByRole("button", { name: "Remove OLD" }).waitFor();
  await staged.getByRole("button", { name: "Details" }).click();
  await staged.getByText("Deploying runs the current code").waitFor({ state: "hidden" });
  await staged.getByRole("button", { name: "Discard" }).click();
  await staged.waitFor({ state: "detached" });
  await page.context().close();
});

test("the .env text of all variables is edited, and lines that cannot be read are named", async () => {
  const page = await open({ path: `${addressOf(made)}/environment` });
  await page.getByRole("button", { name: ".env text" }).click();
  const text = page.getByLabel("Variables as a .env file");
  assert.match(await text.inputValue(), /^TONE=kind$/m);
  await text.fill("TONE=stern\nloose words\nPOSTGRES_URI=x");
  const refusals = page.getByRole("status").filter({ hasText: "Line 2" });
  await refusals.getByText("POSTGRES_URI").first().waitFor();
  const staged = page.getByRole("region", { name: "Staged changes" });
  assert.equal(await staged.count(), 0, "nothing counts before every line can be read");
  await text.fill("TONE=stern\nEXTRA='a # b'");
  await staged.getByText("Added").waitFor();
  assert.deepEqual(await world.findings(page), []);
  await page.getByRole("button", { name: "Table" }).click();
  await page.getByRole("button", { name: "Show values" }).click();
  assert.equal(await page.getByLabel("Value of EXTRA").inputValue(), "a # b");
  await staged.getByRole("button", { name: "Discard" }).click();
  await page.context().close();
});

test("a value of several lines is pasted and edited unchanged", async () => {
  const page = await open({ path: `${addressOf(made)}/environment` });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const key = "-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----\n";
  await page.evaluate((text) => navigator.clipboard.writeText(text), key);
  await page.getByRole("button", { name: "Add a variable" }).click();
  await page.getByLabel("Name 3").fill("SIGNING_KEY");
  await page.getByLabel("Value of SIGNING_KEY").press("Control+v");
  await page.getByRole("button", { name: "Show values" }).click();
  await page.getByLabel("Value of SIGNING_KEY").press("ControlOrMeta+End");
  await page.keyboard.type("# mine");
  await page.getByRole("button", { name: "Deploy these changes" }).click();
  await page.locator(".revision").nth(1).waitFor();
  const { secrets } = await client.getDeployment({ deployment_id: made.id });
  assert.equal(secrets.find(({ name }) => name === "SIGNING_KEY")?.value, `${key}# mine`);
  await page.context().close();
});

test("single keys move through the rows of the list, select and open them, and stay letters in a text field", async () => {
  for (const name of ["row-1", "row-2", "row-3"]) {
    const body = { name, source: "internal_source" as const, source_config: {}, source_revision_config: {} };
    await client.createDeployment({ body });
  }
  const page = await open({ path: "/host/deployments?q=row-&sort=name" });
  const { keyboard } = page;
  await page.getByRole("main").getByRole("link", { name: "row-3" }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.textContent ?? "");
  await keyboard.press("j");
  assert.equal(await focused(), "row-1");
  await keyboard.press("j");
  await keyboard.press("x");
  await keyboard.press("j");
  await keyboard.press("j");
  assert.equal(await focused(), "row-3", "the last one");
  await keyboard.press("x");
  await page.getByText("2 selected").waitFor();
  await keyboard.press("k");
  assert.equal(await focused(), "row-2");
  await keyboard.press("/");
  await keyboard.type("jkx");
  assert.equal(await page.getByLabel("Filter deployments").inputValue(), "row-jkx");
  await page.getByLabel("Filter deployments").fill("row-");
  await page.getByRole("main").getByRole("link", { name: "row-2" }).focus();
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "row-2" }).waitFor();
  await page.context().close();
});

test("pairs of keys open pages, numbers open the parts of a deployment, and the list of keys switches them off", async () => {
  const page = await open({ path: addressOf(made) });
  const { keyboard } = page;
  await page.getByRole("heading", { name: "measured", level: 1 }).waitFor();
  await keyboard.press("7");
  await page.getByRole("table", { name: "Variables" }).waitFor();
  await keyboard.press("g");
  await keyboard.press("a");
  await page.getByRole("heading", { name: "Approvals" }).waitFor();
  await keyboard.press("?");
  await page.getByRole("dialog").getByLabel("Single keys act outside of fields").uncheck();
  assert.deepEqual(await world.findings(page), []);
  await keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await keyboard.press("g");
  await keyboard.press("d");
  await keyboard.press("?");
  await page.reload();
  await page.getByRole("heading", { name: "Approvals" }).waitFor();
  await page.context().close();
});

test("a changed role can be undone", async () => {
  await client.createMember({ body: { email: "bo@example.org", role: "reader" } });
  const page = await open({ path: "/host/members" });
  const row = page.getByRole("row").filter({ hasText: "bo@example.org" });
  const role = row.getByLabel("Role of bo@example.org");
  await role.selectOption("Admin");
  await page.getByText("bo@example.org is now admin.").waitFor();
  assert.equal(await role.inputValue(), "admin");
  await page.getByRole("button", { name: "Undo" }).click();
  await eventually(
    () => role.inputValue(),
    (value) => value === "reader",
  );
  const { resources } = await client.listMembers({ email: "bo@example.org" });
  assert.equal(resources[0]?.role, "reader");
  await page.context().close();
});

test("the palette opens a part of a deployment by a few letters", async () => {
  const page = await open();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("measured env");
  await page.getByRole("option", { name: "measured: environment" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByLabel("Value of TONE").waitFor();
  assert.equal(new URL(page.url()).pathname, `${addressOf(made)}/environment`);
  await page.context().close();
});

async function narrowWidthOf(page: Page): Promise<number> {
  await page.setViewportSize({ width: 360, height: 800 });
  return page.evaluate(() => document.documentElement.scrollWidth);
}

test("the display name and the custom address of an image are saved without a revision, and the address can be copied", async () => {
  const image = await client.createDeployment({
    body: {
      name: "addressed",
      source: "external_docker",
      source_config: { resource_spec: {} },
      source_revision_config: { image_uri: "registry.example.org/team/agent:1.4" },
    },
  });
  const page = await open({ path: `${addressOf(image)}/settings` });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const forms = page.locator("main form");
  const save = (label: string) => forms.filter({ has: page.getByLabel(label) }).getByRole("button", { name: "Save" });
  await page.getByLabel("Display name").fill("Front desk");
  await save("Display name").click();
  await page.getByRole("heading", { name: "Front desk", level: 1 }).waitFor();
  await page.getByLabel("Serving address").fill("ftp://agents.example.org");
  await page.getByText("must be an http or https URL").waitFor();
  assert.ok(await save("Serving address").isDisabled());
  await page.getByLabel("Serving address").fill("https://agents.example.org/desk");
  await save("Serving address").click();
  const shown = page.locator("header.head");
  await shown.getByRole("link", { name: "agents.example.org/desk", exact: true }).waitFor();
  await shown.getByRole("button", { name: "Copy address" }).click();
  await page.getByText("Address copied.").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "https://agents.example.org/desk");
  assert.deepEqual(await findings(page), []);
  assert.ok((await narrowWidthOf(page)) <= 360);
  await page.setViewportSize({ width: 1_200, height: 800 });
  const { display_name, url, latest_revision_id } = await client.getDeployment({ deployment_id: image.id });
  assert.deepEqual(
    [display_name, url, latest_revision_id],
    ["Front desk", "https://agents.example.org/desk", image.latest_revision_id],
  );
  await page.getByLabel("Serving address").fill("");
  await save("Serving address").click();
  const address = (image.url as string).replace(/^https?:\/\//, "");
  await shown.getByRole("link", { name: address, exact: true }).waitFor();
  assert.equal(await page.getByLabel("Serving address").inputValue(), image.url);
  await page.goto(`${pierhead.url}${addressOf(made)}/settings`);
  await page.getByLabel("Display name").waitFor();
  assert.equal(await page.getByLabel("Serving address").count(), 0, "deployments built here have no custom address");
  await page.context().close();
});

test("a copied command and copied TypeScript do what the page does", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-copied-"));
  after(() => rm(directory, { recursive: true, force: true }));
  const page = await open({ path: "/host/new" });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Git repository" }).click();
  await page.getByLabel("Repository", { exact: true }).fill("https://git.invalid/acme/bot");
  await page.getByLabel("Name", { exact: true }).fill("typed");
  const copied = async (form: string) => {
    await page.locator("form").getByRole("button", { name: "Copy as" }).click();
    await page.getByRole("menuitem", { name: form, exact: true }).click();
    await page.getByText(`Copied as ${form}.`).first().waitFor();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  const typescript = await copied("TypeScript");
  const program = path.join(directory, "program.ts");
  await writeFile(program, typescript.replace("pierhead/client", path.resolve("src/client/client.ts")));
  const env = { ...process.env, PIERHEAD_API_KEY: pierhead.apiKey, PIERHEAD_URL: pierhead.url };
  await promisify(execFile)(process.execPath, [program], { env });
  const { resources } = await client.listDeployments({ name: "typed" });
  assert.equal(resources[0]?.source_config.repo_url, "https://git.invalid/acme/bot");

  await page.goto(`${pierhead.url}/host/keys`);
  await page.getByText("(current)").waitFor();
  const { CLI: command = "" } = await copiesOf(page.locator("main"));
  assert.match(command, /^npx pierhead /);
  const argv = [...command.replace(/^npx pierhead /, "").matchAll(/'([^']*)'|(\S+)/g)].map(([, a, b]) => a ?? b ?? "");
  const { stdout } = await promisify(execFile)(process.execPath, ["src/main.ts", ...argv], { env });
  assert.ok(stdout.includes("admin"), stdout);
  await page.context().close();
});
