import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { operations } from "../../src/contract/operations.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { addressOf, assertNoBrowserErrors, goTo, goToPart, signIn, signOut, startWorld } from "./world.ts";

const world = await startWorld();
const { pierhead, open, requests } = world;
after(() => assertNoBrowserErrors(world));

/** Sets a global variable if it is ever interpreted as markup, as an attribute or as an address. */
const canary = `"><img src=x onerror="globalThis.broken=1"><script>globalThis.broken=1</script>'\${globalThis.broken=1}{{7*7}}`;
const address = `javascript:globalThis.broken=1//`;

/** An agent that attacks the users of its pages and puts the canary into everything it returns. */
const evil = `
const http = require("node:http");
console.log(${JSON.stringify(canary)});
console.error(${JSON.stringify(canary)});
http.createServer((request, response) => {
  if (request.url === "/ok") return response.end("ok");
  if (request.url === "/cookie") return response.end(JSON.stringify(request.headers.cookie ?? null));
  if (request.url === "/assistants/search") {
    response.setHeader("content-type", "application/json");
    return response.end(JSON.stringify([null, { assistant_id: "b", graph_id: 7 }, { assistant_id: "a", graph_id: ${JSON.stringify(canary)} }]));
  }
  if (request.url.startsWith("/threads/odd")) {
    response.setHeader("content-type", "application/json");
    const state = (id, odd) => ({ ...odd, checkpoint: { checkpoint_id: id }, values: { messages: [{ type: "ai", content: "said at " + id }] } });
    const states = [state("2", { tasks: [{ interrupts: 4 }, 7, null], next: 5 }), null, state("1", { tasks: "none", next: { a: 1 } })];
    const history = request.url.endsWith("/history");
    return response.end(JSON.stringify(history ? states : request.url.includes("/runs") ? {} : { thread_id: "odd", status: "idle" }));
  }
  if (request.url === "/threads/search") {
    response.setHeader("content-type", "application/json");
    return response.end(JSON.stringify([{ thread_id: "odd", status: "idle" }]));
  }
  if (request.url === "/threads") response.setHeader("content-type", "application/json");
  if (request.url === "/threads") return response.end(JSON.stringify({ thread_id: ${JSON.stringify(`../../../v2/x${canary}`)} }));
  if (request.url.endsWith("/runs/stream")) {
    response.setHeader("content-type", "text/event-stream");
    const messages = [{ type: ${JSON.stringify(canary)}, content: ${JSON.stringify(canary)} }];
    return response.end("event: values\\ndata: " + JSON.stringify({ messages }) + "\\n\\n");
  }
  response.setHeader("content-type", "text/html");
  response.setHeader("set-cookie", "pierhead_session=stolen; Path=/");
  response.end(\`<!doctype html><title>agent</title><p id="said">…</p><script>
    fetch("/v2/deployments", { headers: { "x-pierhead-console": "1" } })
      .then((answer) => answer.text(), (error) => "refused: " + error)
      .then((text) => { document.getElementById("said").textContent = text; });
  </script>\`);
}).listen(process.env.PORT, "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
`;
const repository = await createAgentRepository({ ...nodeAgent("evil"), "server.js": evil });
after(() => repository[Symbol.asyncDispose]());

const made = await pierhead.client.createDeployment({
  body: {
    name: "evil",
    source: "github",
    source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    secrets: [{ name: "CANARY", value: canary }],
  },
});
const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
assert.equal((await pierhead.client.waitForRevision(ids)).status, "DEPLOYED");
const { url: agentUrl } = await pierhead.client.getDeployment(ids);

const isBroken = (page: Page) => page.evaluate(() => (globalThis as { broken?: number }).broken !== undefined);

test("text of users and agents is shown literally and never runs", async () => {
  const { client } = pierhead;
  await client.patchDeployment({ ...ids, body: { display_name: canary } });
  await client.createApiKey({ body: { name: canary.slice(0, 128), role: "reader" } });
  await client.createMember({
    body: { email: `a<img/src=x/onerror=broken=1>@x`, name: canary.slice(0, 128), role: "reader" },
  });
  await client.createWebhook({
    body: { url: `http://127.0.0.1:1/${encodeURIComponent(canary)}`, description: canary },
  });
  await client.patchWorkspace({ workspace_id: made.tenant_id, body: { name: canary.slice(0, 64) } });
  await client.createListener({ body: { compute_type: "k8s", compute_id: canary, compute_config: {} } });
  await client.createIntegration({
    body: { host: "git", name: canary.slice(0, 128), url: "https://git.invalid/x", token: "t" },
  });
  const endpoints = { auth_url: "https://a.invalid/x", token_url: "https://a.invalid/y" };
  await client.createOAuthProvider({
    body: { provider_id: "x", name: canary.slice(0, 128), client_id: "c", client_secret: "s", ...endpoints },
  });
  const failing = {
    start: ["node", "server.js"],
    build: [["node", "-e", `console.error(${JSON.stringify(canary)}); process.exit(1)`]],
  };
  await repository.commit({ "pierhead.json": JSON.stringify(failing) }, canary);
  const broken = await client.createRevision({ deployment_id: made.id, body: {} });
  assert.equal(
    (await client.waitForRevision({ deployment_id: made.id, revision_id: broken.id })).status,
    "BUILD_FAILED",
  );

  const page = await open();
  await page.getByRole("main").getByRole("link", { name: canary }).waitFor();
  await page.getByRole("main").getByRole("link", { name: canary }).click();
  await page.getByRole("region", { name: "Health" }).getByText("onerror").first().waitFor();
  await goToPart(page, "Revisions");
  await page.locator(".cause", { hasText: "onerror" }).waitFor();
  await page.locator(".log .line", { hasText: "onerror" }).first().waitFor();
  assert.equal(await isBroken(page), false);
  for (const [part, seen] of [
    ["Logs", canary],
    ["Variables", null],
    ["Playground", canary],
    ["Settings", null],
  ] as const) {
    await goToPart(page, part);
    if (part === "Variables") await page.getByRole("button", { name: "Show values" }).click();
    if (seen !== null) await page.getByText("onerror").first().waitFor({ state: "attached" });
    if (part === "Playground") {
      await page.getByLabel("Message").fill(canary);
      await page.getByRole("button", { name: "Send" }).click();
      await page.getByRole("log").getByText("onerror").first().waitFor();
    }
    assert.equal(await isBroken(page), false, part);
  }
  for (const name of ["Listeners", "Integrations", "OAuth providers", "Webhooks", "API keys", "Members", "Audit log"]) {
    await goTo(page, name);
    await page.getByText("onerror").first().waitFor();
    assert.equal(await isBroken(page), false, name);
  }
  // The display name of the deployment is the canary, which the list finds.
  const unknown = encodeURIComponent(`${canary} unknown`);
  await page.goto(`${pierhead.url}/host/deployments?q=${unknown}&status=${encodeURIComponent(address)}`);
  await page.getByText("No deployments match these filters.").waitFor();
  assert.equal(await isBroken(page), false);
  assert.equal(await page.locator("a[href^='javascript:']").count(), 0);
  await page.context().close();
});

test("a thread whose checkpoints have other shapes than agreed is shown as far as it can be read", async () => {
  const page = await open();
  await page.goto(`${pierhead.url}/o/${made.tenant_id}/host/deployments/${made.id}/threads?thread=odd`);
  await page.getByText("said at 1").first().waitFor();
  await page.context().close();
});

test("a page of an agent cannot act for the signed-in user, and its server never receives the session", async () => {
  const page = await open();
  await page.goto(agentUrl ?? "");
  await page.getByText(/refused|Invalid token/).waitFor();
  assert.ok(!(await page.locator("#said").innerText()).includes(made.id));
  await page.goto(`${agentUrl}/cookie`);
  assert.equal(await page.locator("body").innerText(), '"pierhead_session=stolen"', "the agent's own cookie");
  await page.goto(`${pierhead.url}/`);
  await page.getByRole("main").getByRole("link", { name: "onerror" }).waitFor();
  // The browser reports what it blocked.
  const said = world.browserErrors.splice(0);
  assert.deepEqual(
    said.filter((text) => !/from origin 'null' has been blocked|ERR_FAILED/.test(text)),
    [],
  );
  assert.ok(said.length > 0);
  await page.context().close();
});

test("the session is unreadable for scripts, survives a reload and ends with the sign-out", async () => {
  const linked = `${addressOf(made)}/revisions`;
  const page = await open({ path: linked });
  await page.locator(".revision").first().waitFor();
  assert.equal(new URL(page.url()).pathname, linked);
  assert.equal(await page.evaluate(() => document.cookie), "");
  assert.equal(
    await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }).includes("ph_")),
    false,
  );
  await page.reload();
  await page.locator(".revision").first().waitFor();
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie?.httpOnly, cookie?.sameSite], [true, "Strict"]);
  await signOut(page);
  await page.getByLabel("API key").waitFor();
  const headers = { cookie: `${cookie?.name}=${cookie?.value}`, "x-pierhead-console": "1" };
  assert.equal((await fetch(`${pierhead.url}/v2/deployments`, { headers })).status, 401);
  await page.context().close();
});

test("an invalid key is reported at the sign-in, and revoking a key ends its session", async () => {
  const page = await open({ key: null });
  await page.getByLabel("API key").fill("ph_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("This API key is not valid. Check the key and try again.").waitFor();
  const { id, key } = await pierhead.client.createApiKey({ body: { name: "short", role: "reader" } });
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Deployments" }).waitFor();
  assert.equal(await page.getByRole("link", { name: "New deployment" }).count(), 0);
  await goTo(page, "Listeners");
  assert.equal(await page.getByRole("link", { name: "API keys" }).count(), 0, "a reader does not see admin pages");
  await pierhead.client.revokeApiKey({ api_key_id: id });
  await page.reload();
  await page.getByLabel("API key").waitFor();
  await page.context().close();
});

test("a link of pierhead open signs a browser in once and leaves the address bar", async () => {
  const { url } = await pierhead.client.createSignInLink();
  const at = url.slice(new URL(url).origin.length);
  const page = await open({ key: null, path: at });
  await page.getByRole("button", { name: "Sign in with this link" }).click();
  await page.getByRole("heading", { name: "Deployments" }).waitFor();
  assert.equal(new URL(page.url()).hash, "");
  await page.context().close();
  const second = await open({ key: null });
  // The link of a second terminal is often pasted into a tab of the console.
  await second.evaluate((hash) => location.assign(hash), new URL(url).hash);
  await second.getByRole("button", { name: "Sign in with this link" }).click();
  await second.getByText("This link was used before").waitFor();
  await second.context().close();
});

test("a signed-in user sees which command line waits under a code, and allows or refuses it", async () => {
  const startLogin = () => pierhead.client.startDeviceLogin({ body: { client_name: "laptop" } });
  const first = await startLogin();
  const page = await open({ key: null, path: new URL(first.verification_uri).pathname });
  await signIn(page, pierhead.apiKey);
  const answer = async (code: string, button: string) => {
    await page.getByLabel("Code").fill(code);
    await page.getByRole("button", { name: "Continue" }).click();
    const decision = page.getByRole("region", { name: "Decision" });
    for (const text of [code, "laptop", "127.0.0.1"]) await decision.getByText(text, { exact: true }).waitFor();
    assert.deepEqual(await world.findings(page), []);
    await decision.getByRole("button", { name: button, exact: true }).click();
  };
  await page.getByLabel("Code").fill("BCDF-GHJK");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("No command line waits under this code").waitFor();
  await answer(first.user_code, "Allow");
  await page.getByText("laptop is signed in.").waitFor();
  const { key } = await pierhead.client.finishDeviceLogin({ body: { device_code: first.device_code } });
  assert.deepEqual([key?.role, key?.scope], ["admin", "workspace"]);
  const second = await startLogin();
  await page.reload();
  await answer(second.user_code, "Refuse");
  await page.getByText("laptop was refused.").waitFor();
  const { status } = await pierhead.client.finishDeviceLogin({ body: { device_code: second.device_code } });
  assert.equal(status, "refused");
  await page.context().close();
});

test("the console calls no other host, and its policy blocks such calls", async () => {
  const { origin } = new URL(pierhead.url);
  const others = requests.filter(({ url }) => /^(https?|wss?):/.test(url) && new URL(url).origin !== origin);
  assert.deepEqual(others, []);
  assert.ok(requests.length > 30);
  const page = await open();
  const outcome = await page.evaluate(() =>
    fetch("http://127.0.0.1:1/").then(
      () => "sent",
      (error) => String(error),
    ),
  );
  assert.match(outcome, /TypeError/);
  const violated = await page.evaluate(
    () =>
      new Promise<string>((resolve) => {
        document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => resolve(effectiveDirective));
        const image = new Image();
        image.src = "http://127.0.0.1:1/x.png";
      }),
  );
  assert.equal(violated, "img-src");
  const written = await page.evaluate(() => {
    try {
      document.body.insertAdjacentHTML("beforeend", "<i></i>");
      return "written";
    } catch (error) {
      return String(error);
    }
  });
  assert.match(written, /TrustedHTML/);
  // The browser reported the violations provoked above.
  world.browserErrors.splice(0);
  await page.context().close();
});

test("every call of the console is an operation of the public API, or for an agent", async () => {
  const known = Object.values(operations).map(({ verb, path, audience }) => ({
    verb,
    audience,
    path: new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`),
  }));
  const pages = /^\/(assets\/[\w.-]+|host\/[\w/-]+|o\/[\w/-]+)?$/;
  const agents = new URL(agentUrl ?? "").pathname;
  const odd = requests.filter(({ verb, url }) => {
    if (!/^https?:/.test(url)) return false;
    const { pathname } = new URL(url);
    if (pathname.startsWith(agents) || pathname.startsWith(`/v2/deployments/${made.id}/agent/`)) return false;
    if (verb === "GET" && pages.test(pathname)) return false;
    return !known.some((one) => one.verb === verb && one.audience === "public" && one.path.test(pathname));
  });
  assert.deepEqual(
    odd.filter(({ url }) => !url.startsWith("http://127.0.0.1:1/")),
    [],
  );
});
