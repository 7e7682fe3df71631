import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type Page, startLiveWorld } from "./world.ts";

const world = await startLiveWorld();
after(() => world[Symbol.asyncDispose]());
const { browser, identity } = world;

/** Signs in from a page of the console through the provider's page, until the browser is back. */
async function signIn(page: Page, user: string, from = "/"): Promise<void> {
  await page.goto(world.url + from);
  await page.click("text=Sign in with Example ID");
  await page.fill("input[name=login]", user);
  await page.fill("input[name=password]", "x");
  await page.click("button[type=submit]");
  await page.click("button[type=submit]");
  await page.waitForURL(({ href }) => href.startsWith(world.url));
}

/** Reads the session of the browser's cookie. */
const ask = (page: Page, path: string) =>
  page.evaluate(`fetch("${path}", { headers: { "x-pierhead-console": "1" } }).then((answer) => answer.text())`);

test("a member signs in at the provider, returns to the linked page, acts within the role, and signs out", async () => {
  await world.client.createMember({ body: { email: "alice@example.org", role: "reader", name: "Alice" } });
  const page = await browser.visit(async (visitor) => {
    await signIn(visitor, "alice", "/host/listeners");
    await visitor.waitForSelector("h1:has-text('Listeners')");
    assert.equal(new URL(visitor.url()).pathname, "/host/listeners");
    const session = JSON.parse(String(await ask(visitor, "/v2/session")));
    assert.deepEqual([session.name, session.role, session.api_key_id], ["Alice", "reader", null]);
    assert.match(String(await ask(visitor, "/v2/deployments")), /^{"resources":\[\]/);
    assert.equal(await visitor.evaluate("document.cookie"), "");
    await visitor.click(".account");
    await visitor.click("text=Sign out");
    await visitor.waitForSelector("text=Sign in with Example ID");
    assert.match(String(await ask(visitor, "/v2/session")), /Invalid token/);
  });
  assert.ok(page.text.includes("API key"));
  const codes = identity.lines.filter(({ grant }) => grant === "authorization_code");
  assert.equal(codes.length, 1, "one code was exchanged, with its verifier");
});

test("a person who is not a member, or has no verified address, sees the reason and is not signed in", async () => {
  await world.client.createMember({ body: { email: "unverified-bob@example.org", role: "admin" } });
  for (const [user, words] of [
    ["mallory", "mallory@example.org is not a member of this server"],
    ["unverified-bob", "has not verified your address unverified-bob@example.org"],
  ] as const) {
    await browser.visit(async (visitor) => {
      await signIn(visitor, user);
      assert.equal(await visitor.title(), "Not signed in");
      assert.ok((await visitor.innerText("body")).includes(words), words);
      await visitor.click("text=Go back");
      await visitor.waitForSelector("text=Sign in with Example ID");
      assert.match(String(await ask(visitor, "/v2/session")), /Invalid token/);
    });
  }
});

test("a browser cannot complete a sign-in that another browser started", async () => {
  await world.client.createMember({ body: { email: "carol@example.org", role: "deployer" } });
  const begun = await fetch(`${world.url}/v2/session/oidc`, { redirect: "manual" });
  const page = await browser.visit(async (visitor) => {
    await visitor.goto(begun.headers.get("location") ?? "");
    await visitor.fill("input[name=login]", "carol");
    await visitor.fill("input[name=password]", "x");
    await visitor.click("button[type=submit]");
    await visitor.click("button[type=submit]");
    await visitor.waitForURL(({ href }) => href.startsWith(world.url));
  });
  assert.match(page.text, /was not started in this browser/);
});

test("the log contains no secret of a sign-in", () => {
  const secrets = identity.lines.flatMap((line) => line.secrets ?? []);
  assert.ok(secrets.length > 0 && world.log().includes("member sign-in failed"));
  for (const secret of secrets) assert.ok(!world.log().includes(secret));
});
