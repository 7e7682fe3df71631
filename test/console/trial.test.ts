import assert from "node:assert/strict";
import { after, test } from "node:test";
import { comparisonUrl } from "../../console/src/parts/git-links.ts";
import { eventually } from "../support/eventually.ts";
import { plainServer, startRepositories } from "./shown-repositories.ts";
import { addressOf, assertNoBrowserErrors, startWorld } from "./world.ts";

const timeoutMs = 120_000;

const world = await startWorld({
  PIERHEAD_ALLOW_PRIVATE_NETWORK: "true",
  PIERHEAD_IDLE_AFTER_MS: "2000",
});
const { findings, open, pierhead, requests } = world;
const { client } = pierhead;
const repositories = await startRepositories();
after(() => repositories[Symbol.asyncDispose]());
after(() => assertNoBrowserErrors(world));

/** Answers with a word and the variable that the deployment has. */
const saying = (word: string) => ({
  "server.js": `import { createServer } from "node:http";
createServer((request, response) => response.end("${word} in " + process.env.REGION)).listen(process.env.PORT);
process.on("SIGTERM", () => process.exit(0));
`,
});

await repositories.commit("greeter", {
  author: "A",
  message: "Say hello",
  files: { ...plainServer, ...saying("hello") },
});
const made = await client.createDeployment({
  body: {
    name: "greeter",
    source: "github",
    secrets: [{ name: "REGION", value: "eu" }],
    source_config: { repo_url: repositories.urlOf("greeter"), build_on_push: false, deployment_type: "dev" },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
  },
});
const first = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
assert.equal((await client.waitForRevision(first, { timeoutMs })).status, "DEPLOYED");
await repositories.commit("greeter", { author: "A", message: "Say goodbye", files: saying("goodbye") });
const { id: secondId } = await client.createRevision({ deployment_id: made.id, body: {} });
const second = { deployment_id: made.id, revision_id: secondId };
assert.equal((await client.waitForRevision(second, { timeoutMs })).status, "DEPLOYED");

const answerOf = async (url: string | null) =>
  (await fetch(`${url}/`, { headers: { "x-api-key": pierhead.apiKey } })).text();

test("a revision that does not serve can be tried without traffic, with the code and variables of its own", async () => {
  const page = await open({ path: `${addressOf(made)}/revisions?revision=${first.revision_id}` });
  await page.getByRole("link", { name: "Try without traffic: revision 1" }).click();
  const idle = page.getByRole("region", { name: "Revision 1", exact: true });
  await idle.getByText("nothing answers here").waitFor();
  assert.equal(await page.getByLabel("Revision", { exact: true }).inputValue(), first.revision_id);
  await idle.getByText(/^Found /).waitFor();
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await findings(page), [], colorScheme);
  }
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await page.setViewportSize({ width: 1_200, height: 800 });
  await idle.getByRole("link", { name: "Try revision 1 …" }).click();
  await page.getByText("Revision 1 of greeter, without its traffic").waitFor();
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "greeter-rev-1");
  assert.equal(await page.getByLabel("Value of REGION").inputValue(), "eu");
  const { repo_commit_sha: sha } = (await client.getRevision(first)).source_revision_config;
  assert.equal(await page.getByLabel("Branch, refs/tags/… or commit").inputValue(), sha);
  await page.getByRole("button", { name: "Create and deploy" }).click();
  const trial = await eventually(
    async () => (await client.listDeployments({ name: "greeter-rev-1" })).resources[0],
    (found) => found?.status === "READY" && found.active_revision_id !== null,
    { timeoutMs, what: "the trial is ready" },
  );
  assert.equal(await answerOf(trial?.url ?? null), "hello in eu");
  assert.equal(await answerOf((await client.getDeployment({ deployment_id: made.id })).url), "goodbye in eu");
  await page.context().close();
});

test("the playground leads from a revision that does not serve back to the one that does", async () => {
  const page = await open({ path: `${addressOf(made)}/playground?revision=${first.revision_id}` });
  await page.getByRole("region", { name: "Revision 1", exact: true }).getByText("nothing answers here").waitFor();
  await page.getByRole("link", { name: "Back to the revision that serves" }).click();
  await page.getByText("This server does not speak the agent API.").waitFor();
  await page.goBack();
  await page.getByLabel("Revision", { exact: true }).selectOption({ label: "Revision 2: live" });
  await page.getByText("This server does not speak the agent API.").waitFor();
  assert.equal(new URL(page.url()).search, "");
  await page.context().close();
});

test("a new deployment that was begun keeps its draft while a revision is tried", async () => {
  const page = await open({ path: "/host/new" });
  await page.getByLabel("Name", { exact: true }).fill("half-typed");
  await page.goto(`${pierhead.url}/host/new?of=${made.id}&revision=${first.revision_id}`);
  await page.getByText("Revision 1 of greeter, without its traffic").waitFor();
  await page.getByLabel("Name", { exact: true }).fill("another-trial");
  await page.goto(`${pierhead.url}/host/new`);
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "half-typed");
  await page.context().close();
});

test("a user points the deployment to another config file and to pushes, and the change says that it deploys", async () => {
  await repositories.commit("greeter", {
    author: "A",
    message: "Keep the settings in a folder",
    files: { "other.json": plainServer["pierhead.json"] ?? "" },
  });
  const page = await open({ path: `${addressOf(made)}/settings` });
  const form = page.locator("main form").filter({ has: page.getByLabel("Repository") });
  const read = () => client.getDeployment({ deployment_id: made.id });
  await form.getByLabel("Config file").fill("../other.json");
  await form.getByText(/must|may not|cannot/).waitFor();
  await form.getByLabel("Config file").fill("other.json");
  await form.getByRole("button", { name: "Save and deploy" }).click();
  const changed = await eventually(read, ({ latest_revision_id: latest }) => latest !== secondId);
  assert.equal(changed.source_revision_config.langgraph_config_path, "other.json");
  const third = { deployment_id: made.id, revision_id: changed.latest_revision_id ?? "" };
  assert.equal((await client.waitForRevision(third, { timeoutMs })).status, "DEPLOYED");
  await form.getByLabel("Deploy every push").check();
  await form.getByRole("button", { name: "Save", exact: true }).click();
  const { source_config, latest_revision_id } = await eventually(
    read,
    (one) => one.source_config.build_on_push === true,
  );
  assert.deepEqual([source_config.repo_url, latest_revision_id], [made.source_config.repo_url, third.revision_id]);
  assert.deepEqual(await findings(page), []);
  await page.context().close();
});

test("a trial of a deployment with a number of replicas is created", async () => {
  const scaled = await client.createDeployment({
    body: {
      name: "scaled",
      source: "github",
      secrets: [],
      source_config: {
        repo_url: repositories.urlOf("greeter"),
        build_on_push: false,
        deployment_type: "prod",
        resource_spec: { min_scale: 1, max_scale: 2 },
      },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const page = await open({ path: `/host/new?of=${scaled.id}&revision=${scaled.latest_revision_id}` });
  await page.getByText("Revision 1 of scaled, without its traffic").waitFor();
  await page.getByRole("button", { name: "Create and deploy" }).click();
  await eventually(
    async () => (await client.listDeployments({ name: "scaled-rev-1" })).resources,
    ({ length }) => length === 1,
    { timeoutMs: 20_000, what: "the trial" },
  );
  await page.context().close();
});

test("a trial that is opened again has the variables that the deployment has by then", async () => {
  const page = await open({ path: `${addressOf(made)}/playground?revision=${first.revision_id}` });
  const begin = page.getByRole("link", { name: "Try revision 1 …" });
  await begin.click();
  const value = page.getByLabel("Value of REGION");
  await value.waitFor();
  assert.equal(await value.inputValue(), "eu");
  await page.goBack();
  await begin.waitFor();
  const secrets = [{ name: "REGION", value: "us" }];
  await client.patchDeployment({ deployment_id: made.id, body: { secrets } });
  await begin.click();
  await value.waitFor();
  assert.equal(await value.inputValue(), "us");
  await page.context().close();
});

test("a reader sees a revision that does not serve, without a detection that only deployers may ask for", async () => {
  const { key } = await client.createApiKey({ body: { name: "reader", role: "reader" } });
  requests.length = 0;
  const page = await open({ key, path: `${addressOf(made)}/playground?revision=${first.revision_id}` });
  const idle = page.getByRole("region", { name: "Revision 1", exact: true });
  await idle.getByText("A deployer can run it as a deployment of its own.").waitFor();
  await idle.getByRole("link", { name: "Its build log" }).click();
  await idle.waitFor({ state: "detached" });
  assert.deepEqual(
    requests.filter(({ url }) => url.includes("/v2/detections")),
    [],
  );
  await page.context().close();
});

test("the page of a revision that does not serve leaves the agent of its deployment asleep", async () => {
  const resting = await client.createDeployment({
    body: {
      name: "resting",
      source: "github",
      secrets: [],
      source_config: {
        repo_url: repositories.urlOf("greeter"),
        build_on_push: false,
        deployment_type: "dev_zero",
      },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const ids = { deployment_id: resting.id };
  const early = { ...ids, revision_id: resting.latest_revision_id ?? "" };
  assert.equal((await client.waitForRevision(early, { timeoutMs })).status, "DEPLOYED");
  await repositories.commit("greeter", { author: "A", message: "Say good night", files: saying("good night") });
  const { id: lateId } = await client.createRevision({ ...ids, body: {} });
  assert.equal((await client.waitForRevision({ ...ids, revision_id: lateId }, { timeoutMs })).status, "DEPLOYED");
  const health = async () => (await client.getDeployment(ids)).health.status;
  await eventually(health, (status) => status === "sleeping", { timeoutMs: 30_000, what: "a sleeping agent" });
  requests.length = 0;
  const page = await open({ path: `${addressOf(resting)}/playground?revision=${early.revision_id}` });
  await page.getByRole("region", { name: "Revision 1", exact: true }).getByText("nothing answers here").waitFor();
  await eventually(
    () => requests.some(({ url }) => url.endsWith(`/revisions/${lateId}`)),
    (isRead) => isRead,
    { what: "a comparison with the revision that serves" },
  );
  assert.deepEqual(
    requests.filter(({ url }) => url.includes("/assistants")),
    [],
  );
  assert.equal(await health(), "sleeping");
  await page.context().close();
});

test("a revision shows what changed by kind, and its commit and ids can be copied", async () => {
  const { resources } = await client.listRevisions({ deployment_id: made.id, limit: 20 });
  const third = resources.find(({ number }) => number === 3);
  assert.equal(third?.source_revision_config.langgraph_config_path, "other.json");
  const page = await open({ path: `${addressOf(made)}/revisions?revision=${third.id}` });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const item = page.getByRole("listitem", { name: "Revision 3", exact: true });
  for (const [name, text] of [
    ["Commit", third.source_revision_config.repo_commit_sha],
    ["Digest of the build", third.artifact_digest],
    ["Revision ID", third.id],
  ] as const) {
    await item.getByRole("button", { name: `Copy ${name}` }).click();
    await eventually(
      () => page.evaluate(() => navigator.clipboard.readText()),
      (copied) => copied === text,
      { what: `a copy of the ${name}` },
    );
  }
  await item.getByRole("button", { name: "Show changes since 2" }).click();
  const parts = item.getByRole("group", { name: "What changed" });
  await parts.getByRole("button", { name: "Code", pressed: true }).waitFor();
  await item.getByRole("cell", { name: "Commit", exact: true }).waitFor();
  await parts.getByRole("button", { name: "Settings", exact: true }).click();
  await item.getByRole("row", { name: /Config file .*other\.json/ }).waitFor();
  await parts.getByRole("button", { name: "Variables: same" }).click();
  await item.getByText("The variables are the same.").waitFor();
  // They cover a part of the page for some seconds, and so does its head while it is scrolled.
  await page.locator(".toast").first().waitFor({ state: "detached" });
  await page.evaluate(() => window.scrollTo(0, 0));
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await findings(page), [], colorScheme);
  }
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await page.context().close();
});

test("two commits are compared where their host shows it, and nowhere else", () => {
  const [from, to] = ["a".repeat(40), "b".repeat(40)];
  const at = (repository: string) => comparisonUrl(repository, from, to);
  assert.equal(at("https://github.com/acme/bot.git"), `https://github.com/acme/bot/compare/${from}...${to}`);
  assert.equal(at("https://gitlab.com/acme/sub/bot"), `https://gitlab.com/acme/sub/bot/-/compare/${from}...${to}`);
  assert.equal(at("https://git.example.org/acme/bot"), null);
  assert.equal(at("http://github.com/acme/bot"), null);
  assert.equal(comparisonUrl("https://github.com/acme/bot", from, from), null);
  assert.equal(comparisonUrl("https://github.com/acme/bot", from, "main"), null);
});
