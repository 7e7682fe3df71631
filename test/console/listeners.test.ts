import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { createListenerClient, httpSend } from "../../src/client/listener-client.ts";
import { addressOf, assertNoBrowserErrors, goToPart, startWorld } from "./world.ts";

const world = await startWorld();
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));
const { client } = pierhead;

async function narrowWidthOf(page: Page): Promise<number> {
  await page.setViewportSize({ width: 360, height: 800 });
  return page.evaluate(() => document.documentElement.scrollWidth);
}

test("a new listener comes with its install commands, and a waiting revision names its silent listener", async () => {
  const page = await open({ path: "/host/listeners" });
  await page.getByRole("button", { name: "New listener" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Cluster").fill("cluster-9");
  await dialog.getByLabel("Namespaces").fill("bots");
  await dialog.getByRole("button", { name: "Create" }).click();
  const command = await dialog.getByText("pierhead listener install").innerText();
  const [, key = ""] = /printf %s '([^']+)' > listener.key/.exec(command) ?? [];
  const asListener = { authorization: `Bearer ${key}` };
  assert.notEqual((await fetch(`${pierhead.url}/dp/v1/assignments`, { headers: asListener })).status, 401);
  assert.match(command, new RegExp(`--url '${pierhead.url}' --key-file listener.key[^]*--agents bots`));
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByText("cluster-9", { exact: true }).waitFor();

  const { resources } = await client.listListeners({ limit: 100 });
  const listener = resources.find(({ compute_id }) => compute_id === "cluster-9");
  const image_uri = `registry.example.org/team/agent@sha256:${"a".repeat(64)}`;
  const waiting = await client.createDeployment({
    body: {
      name: "waiting",
      source: "external_docker",
      source_config: {
        listener_id: listener?.id ?? "",
        listener_config: { k8s_namespace: "bots" },
        resource_spec: {},
      },
      source_revision_config: { image_uri },
      secret_references: [{ name: "TOKEN", secret_name: "bot", secret_key: "token" }],
    },
  });
  await page.goto(`${pierhead.url}${addressOf(waiting)}/revisions`);
  await page.getByText("Waiting for listener cluster-9, which has never connected.").waitFor();
  await goToPart(page, "Variables");
  await page.getByLabel("Key of reference 1").fill("Not a key");
  const staged = page.getByRole("region", { name: "Staged changes" });
  await staged.getByText("no Kubernetes Secret can have").waitFor();
  assert.ok(await staged.getByRole("button", { name: "Deploy these changes" }).isDisabled());
  await page.getByLabel("Key of reference 1").fill("newer");
  await page.getByRole("button", { name: "Add a reference" }).click();
  await page.getByLabel("Variable of reference 2").fill("SALT");
  await page.getByLabel("Secret of reference 2").fill("bot");
  await page.getByLabel("Key of reference 2").fill("salt");
  const shown = await staged.innerText();
  for (const words of ["Added: SALT", "Changed: TOKEN"]) assert.ok(shown.includes(words), shown);
  assert.deepEqual(await findings(page), []);
  assert.ok((await narrowWidthOf(page)) <= 360);
  await staged.getByRole("button", { name: "Deploy these changes" }).click();
  await page.locator(".revision").nth(1).waitFor();
  const { secret_references } = await client.getDeployment({ deployment_id: waiting.id });
  assert.deepEqual(secret_references, [
    { name: "TOKEN", secret_name: "bot", secret_key: "newer" },
    { name: "SALT", secret_name: "bot", secret_key: "salt" },
  ]);
  await page.context().close();
});

test("a new deployment chooses its listener, and a source only one that builds images", async () => {
  const add = (compute_id: string) =>
    client.createListener({
      body: { compute_type: "k8s", compute_id, compute_config: { k8s_namespaces: ["bots", "staging"] } },
    });
  const builder = await add("builds-images");
  await add("takes-images");
  const facts = { instance_id: "one", version: "1.0.0", protocols: [1], compute_type: "kubernetes" };
  const session = await createListenerClient(httpSend(pierhead.url, builder.listener_key)).openSession(
    { ...facts, image_registry: "registry.example.com/agents" },
    AbortSignal.timeout(20_000),
  );
  const page = await open({ path: "/host/new" });
  const place = page.getByLabel("Runs on");
  await page.getByRole("button", { name: "Image", exact: true }).click();
  await place.locator("option", { hasText: "takes-images (not connected)" }).waitFor({ state: "attached" });
  await page.getByRole("button", { name: "Template", exact: true }).click();
  await page.getByLabel("Plain Node server").check();
  assert.deepEqual(await place.locator("option").allInnerTexts(), ["This server", "builds-images"]);
  await place.selectOption({ label: "builds-images" });
  await page.getByLabel("Threads and runs").selectOption({ label: "LangGraph.js on files" });
  await page.getByLabel("Type", { exact: true }).waitFor({ state: "detached" });
  await page.getByLabel("Namespace").selectOption("staging");
  await page.getByLabel("Name", { exact: true }).fill("in-cluster");
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Create and deploy" }).click();
  await page.waitForURL(/made=/);
  const { resources } = await client.listDeployments({ name: "in-cluster" });
  assert.deepEqual(
    [
      resources[0]?.source_config.listener_id,
      resources[0]?.source_config.listener_config?.k8s_namespace,
      resources[0]?.source_config.engine,
    ],
    [builder.id, "staging", "file"],
  );
  await session.close(AbortSignal.timeout(20_000));
  await page.context().close();
});

test("an administrator labels a listener, and a new deployment runs on the one that its labels choose", async () => {
  const add = (compute_id: string, labels: Record<string, string>) =>
    client.createListener({ body: { compute_type: "k8s", compute_id, compute_config: {}, labels } });
  const [inEurope] = [await add("eu-1", {}), await add("us-1", { region: "us" })];
  const page = await open({ path: "/host/listeners" });
  await page.getByRole("button", { name: "Labels of eu-1" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Labels").fill("region");
  await dialog.getByText("A label is a key, =, and a value").waitFor();
  assert.ok(await dialog.getByRole("button", { name: "Save" }).isDisabled());
  await dialog.getByLabel("Labels").fill("region=eu, tier=gold");
  assert.deepEqual(await findings(page), []);
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("row", { name: /eu-1.*region=eu.*tier=gold/ }).waitFor();

  await page.goto(`${pierhead.url}/host/new`);
  await page.getByRole("button", { name: "Image", exact: true }).click();
  await page.getByLabel("Runs on").selectOption({ label: "A listener with labels …" });
  const answer = page.getByRole("status");
  await page.getByLabel("Label tier").selectOption("gold");
  await page.getByLabel("Label region").selectOption("us");
  await answer.getByText("No listener has these labels.").waitFor();
  await page.getByLabel("Label region").selectOption("eu");
  await answer.getByText("It will run on eu-1, and stay there.").waitFor();
  assert.deepEqual(await findings(page), []);
  assert.ok((await narrowWidthOf(page)) <= 360);
  await page.getByLabel("Image", { exact: true }).fill("registry.example.org/team/agent:1");
  await page.getByLabel("Name", { exact: true }).fill("by-labels");
  await page.getByRole("button", { name: "Create and deploy" }).click();
  await page.waitForURL(/made=/);
  const { resources } = await client.listDeployments({ name: "by-labels" });
  assert.equal(resources[0]?.source_config.listener_id, inEurope.id);
  await page.goto(`${pierhead.url}${addressOf(resources[0] ?? { id: "", tenant_id: "" })}`);
  const about = page.getByRole("region", { name: "About" });
  for (const text of ["eu-1", "never connected", "region=eu"]) await about.getByText(text, { exact: true }).waitFor();
  await page.context().close();
});

test("the labels of a listener are edited as they are now, and a chosen namespace leaves listeners out", async () => {
  const add = (compute_id: string, namespace: string) =>
    client.createListener({
      body: { compute_type: "k8s", compute_id, compute_config: { k8s_namespaces: [namespace] }, labels: { zone: "a" } },
    });
  const [first] = [await add("zone-1", "bots"), await add("zone-2", "agents")];
  const page = await open({ path: "/host/listeners" });
  await page.getByRole("row", { name: /zone-1.*zone=a/ }).waitFor();
  await client.patchListener({ listener_id: first.id, body: { labels: { zone: "a", tier: "new" } } });
  await page.getByRole("row", { name: /zone-1.*tier=new/ }).waitFor({ timeout: 60_000 });
  await page.getByRole("button", { name: "Labels of zone-1" }).click();
  assert.equal(await page.getByRole("dialog").getByLabel("Labels").inputValue(), "tier=new, zone=a");

  await page.goto(`${pierhead.url}/host/new`);
  await page.getByRole("button", { name: "Image", exact: true }).click();
  await page.getByLabel("Runs on").selectOption({ label: "A listener with labels …" });
  await page.getByLabel("Label zone").selectOption("a");
  const answer = page.getByRole("status");
  await answer.getByText("2 listeners fit: zone-1, zone-2.").waitFor();
  assert.equal(await page.getByLabel("Namespace").inputValue(), "");
  await page.getByLabel("Namespace").selectOption("agents");
  await answer.getByText("It will run on zone-2, and stay there.").waitFor();
  assert.deepEqual(await findings(page), []);
  await page.context().close();
});

test("a listener whose key was lost gets a new one, with its install commands", async () => {
  const { listener_key: lost } = await client.createListener({
    body: {
      compute_type: "k8s",
      compute_id: "forgotten",
      compute_config: { k8s_namespaces: ["bots", "staging"] },
      labels: { region: "eu", gpu: "l4" },
    },
  });
  const page = await open({ path: "/host/listeners" });
  await page.getByRole("row", { name: /forgotten.*gpu=l4.*region=eu/ }).waitFor();
  await page.getByRole("button", { name: "New key for forgotten" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("has never connected").waitFor();
  assert.deepEqual(await findings(page), []);
  await dialog.getByRole("button", { name: "Create" }).click();
  const command = await dialog.getByText("pierhead listener install").innerText();
  assert.match(command, /--agents bots,staging/);
  const [, key = ""] = /printf %s '([^']+)' > listener.key/.exec(command) ?? [];
  assert.notEqual(key, lost);
  const asListener = { authorization: `Bearer ${key}` };
  assert.notEqual((await fetch(`${pierhead.url}/dp/v1/assignments`, { headers: asListener })).status, 401);
  await page.context().close();
});

test("an administrator drains a listener, sees it draining, and resumes it", async () => {
  await client.createListener({ body: { compute_type: "k8s", compute_id: "rebuilt", compute_config: {} } });
  const drainOf = async () =>
    (await client.listListeners({ limit: 100 })).resources.find(({ compute_id }) => compute_id === "rebuilt")?.drain;
  const page = await open({ path: "/host/listeners" });
  const row = page.locator("tbody tr").filter({ hasText: "rebuilt" });
  await row.getByRole("button", { name: "Drain rebuilt" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Agents keep running where they are.").waitFor();
  await dialog.getByRole("button", { name: "Drain", exact: true }).click();
  await row.getByText("Draining", { exact: true }).waitFor();
  assert.equal(await drainOf(), true);
  assert.deepEqual(await findings(page), []);
  await row.getByRole("button", { name: "Resume rebuilt" }).click();
  await row.getByText("Never connected").waitFor();
  assert.equal(await drainOf(), false);
  await page.context().close();
});
