import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { text } from "node:stream/consumers";
import { after, test } from "node:test";
import { startBrowser } from "../console/browser.ts";
import { freePort } from "../support/free-port.ts";
import { startTestServer } from "../support/server.ts";
import { deployEchoAgent } from "./echo-agent.ts";

// Chromium resolves every name below `localhost` to this machine.
const port = await freePort();
const publicUrl = `http://console.localhost:${port}`;
const server = await startTestServer({
  PORT: String(port),
  PIERHEAD_PUBLIC_URL: publicUrl,
  PIERHEAD_AGENTS_DOMAIN: "agents.localhost",
  PIERHEAD_ALLOW_LOCAL_SOURCES: "true",
});
after(() => server[Symbol.asyncDispose]());
const browser = await startBrowser(["*.localhost"]);
after(() => browser.close());
const agent = await deployEchoAgent(server, "apart");

/** Sends a request for a name to this machine, as DNS would. */
async function ask(host: string, path: string) {
  const asked = request({ port, host: "127.0.0.1", path, headers: { host } }).end();
  const [answer] = await once(asked, "response");
  return { status: answer.statusCode as number, body: await text(answer) };
}

test("an agent's address lies in the domain of the agents, with the scheme and port of the public address", async () => {
  assert.match(agent.url, new RegExp(`^http://apart-[0-9a-f]+\\.agents\\.localhost:${port}$`));
  assert.deepEqual(await ask(new URL(agent.url).host, "/answer?headers={}"), { status: 200, body: "hello" });
  const found = await server.client.listDeployments({ url: agent.url });
  assert.deepEqual(
    found.resources.map(({ id }) => id),
    [agent.id],
  );
});

test("a name of the agents' domain never shows the console or the API", async () => {
  const { host } = new URL(agent.url);
  for (const path of ["/v2/session", "/info", "/deployments"]) {
    const { body } = await ask(host, path);
    assert.match(body, /"host":/, `${path} reached the agent`);
  }
  const unknown = await ask(`other.agents.localhost:${port}`, "/info");
  assert.equal(unknown.status, 404);
  assert.doesNotMatch(unknown.body, /"mode"/);
});

test("a page of an agent cannot set a cookie that the console receives", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const plant = ["", ";domain=agents.localhost", ";domain=console.localhost", ";domain=localhost"]
    .map((domain) => `document.cookie="pierhead_session=planted;path=/${domain}"`)
    .join(";");
  const body = `<!doctype html><script>${plant};document.title="done"</script>`;
  await page.goto(`${agent.url}/answer?${new URLSearchParams({ type: "text/html", headers: "{}", body })}`);
  await page.waitForFunction(() => document.title === "done");
  assert.deepEqual(await context.cookies(publicUrl), []);
  // The attack itself ran: the agent has the cookie on its own name.
  assert.ok((await context.cookies(agent.url)).length > 0);
});

test("the console still calls an agent whose address is on another domain", async () => {
  const page = await (await browser.newContext()).newPage();
  await page.goto(publicUrl);
  await page.getByLabel("API key").fill(server.apiKey);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Deployments" }).waitFor();
  await page.getByRole("link", { name: "apart" }).first().click();
  await page
    .getByRole("navigation", { name: "Parts of the deployment" })
    .getByRole("link", { name: "Playground", exact: true })
    .click();
  // The console saw the answer: this server has no assistants.
  await page.getByText("This server does not speak the agent API.").waitFor();
  await page.getByLabel("Path").fill("/answer?type=application/json&headers={}&body=%22hello%22");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByLabel("Response").getByText("hello").waitFor();
});
