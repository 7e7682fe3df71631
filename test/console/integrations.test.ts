import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGithub } from "../hosts/github-server.ts";
import { assertNoBrowserErrors, goTo, startWorld } from "./world.ts";

const github = await startGithub({ "acme/bot": "/nowhere" });
const environment = { PIERHEAD_COMPUTE: "simulated", PIERHEAD_GITHUB_URL: github.origin };
const world = await startWorld(environment);
const { pierhead, open } = world;
after(async () => {
  await github[Symbol.asyncDispose]();
  assertNoBrowserErrors(world);
});

test("an operator creates the GitHub App with two buttons and chooses an account after the sign-in", async () => {
  const page = await open();
  await goTo(page, "Integrations");
  await page.getByRole("button", { name: "Create the GitHub App" }).click();
  await page.getByRole("heading", { name: "Create a GitHub App" }).waitFor();
  await page.getByRole("button", { name: /^Create it at 127\.0\.0\.1/ }).click();
  await page.getByText("This server now has the GitHub App").waitFor();
  assert.equal((await pierhead.client.getGithubApp()).source, "manifest");

  await page.goto(`${pierhead.url}/host/integrations`);
  await page.getByRole("button", { name: "Install the GitHub App" }).click();
  await page.getByRole("button", { name: "Yes, let me choose" }).click();
  await page.getByRole("link", { name: "Go back" }).click();
  const dialog = page.getByRole("dialog", { name: "Choose an account" });
  await dialog.getByRole("button", { name: "Use acme" }).waitFor();
  assert.deepEqual(await world.findings(page), []);
  await dialog.getByRole("button", { name: "Use acme" }).click();
  await page.getByRole("button", { name: "Delete acme" }).waitFor();
  const [install] = await pierhead.client.listGithubInstalls();
  assert.deepEqual([install?.name, install?.installation_id], ["acme", 41]);
});

test("a workspace admin can install the GitHub App but not create it", async () => {
  const { key } = await pierhead.client.createApiKey({ body: { name: "workspace", role: "admin" } });
  const page = await open({ key });
  await goTo(page, "Integrations");
  await page.getByRole("button", { name: "Install the GitHub App" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Create the GitHub App" }).count(), 0);
});
