import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startBrowser } from "../console/browser.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { deployEchoAgent } from "./echo-agent.ts";

/** Chromium resolves every name below `localhost` to this machine, and trusts it like https. */
const root = "pierhead.localhost";

const browser = await startBrowser(["*.localhost"]);
after(() => browser.close());

type BrowserContext = Awaited<ReturnType<typeof browser.newContext>>;
type Page = Awaited<ReturnType<BrowserContext["newPage"]>>;

interface Site {
  server: TestServer;
  console: string;
  /** Address of the agent under the root domain. */
  byName: string;
  /** Address of the agent on the console's origin. */
  byPath: string;
}

async function startSite(environment: Record<string, string>): Promise<Site> {
  const server = await startTestServer({ PIERHEAD_ROOT_DOMAIN: root, ...environment });
  after(() => server[Symbol.asyncDispose]());
  const { port } = new URL(server.url);
  const slug = (await deployEchoAgent(server, "hostile")).url.split("/d/")[1] ?? "";
  const own = `http://${root}:${port}`;
  return { server, console: own, byName: `http://${slug}.${root}:${port}`, byPath: `${own}/d/${slug}` };
}

const http = await startSite({});
const https = await startSite({ PIERHEAD_PUBLIC_URL: `https://${root}` });

/** The page of the agent runs `script`. */
const attackPage = (script: string, headers: object = {}) => {
  const body = `<!doctype html><title>agent</title><script>${script};document.title="done"</script>`;
  const query = new URLSearchParams({ type: "text/html", headers: JSON.stringify(headers), body });
  return `/answer?${query}`;
};

async function visit(context: BrowserContext, url: string, title = "done"): Promise<void> {
  const page = await context.newPage();
  await page.goto(url);
  await page.waitForFunction((wanted) => document.title === wanted, title);
  await page.close();
}

async function signIn(site: Site, key: string, context?: BrowserContext): Promise<Page> {
  const page = await (context ?? (await browser.newContext())).newPage();
  await page.goto(site.console);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Deployments" }).waitFor();
  return page;
}

/** Name of the key behind the console's session, or the status of the refusal. */
const userOf = (page: Page) =>
  page.evaluate(async () => {
    const answer = await fetch("/v2/session", { headers: { "x-pierhead-console": "1" } });
    return answer.ok ? ((await answer.json()) as { name: string }).name : answer.status;
  });

const newKey = async ({ server }: Site, name: string) =>
  (await server.client.createApiKey({ body: { name, role: "reader" } })).key;

/** Signs the attacker in, in a browser of its own, and returns the session that it plants on others. */
async function sessionOfAttacker(site: Site) {
  const page = await signIn(site, await newKey(site, "attacker"));
  const [cookie] = await page.context().cookies();
  await page.context().close();
  return cookie?.value ?? "";
}

const plant = (token: string) =>
  ["pierhead_session=", "__Host-pierhead_session=", "=pierhead_session=", "=__Host-pierhead_session="]
    .flatMap((start) =>
      ["/", "/v2", "/v2/session"].flatMap((path) =>
        ["", "; Secure"].map((end) => `document.cookie="${start}${token}; domain=${root}; path=${path}${end}"`),
      ),
    )
    .join(";");

test("an agent's page under the root domain cannot replace the session of a console that is served over https", async () => {
  const token = await sessionOfAttacker(https);
  const page = await signIn(https, await newKey(https, "victim"));
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie?.name, cookie?.secure, cookie?.path], ["__Host-pierhead_session", true, "/"]);
  await visit(page.context(), https.byName + attackPage(plant(token)));
  assert.equal(await userOf(page), "victim");
  const stranger = await browser.newContext();
  await visit(stranger, https.byName + attackPage(plant(token)));
  const other = await stranger.newPage();
  await other.goto(https.console);
  assert.equal(await userOf(other), 401, "nobody is signed in as the attacker");
  await stranger.close();
  await page.context().close();
});

test("over http, an agent's page cannot make a signed-in user act as another, and cannot lock the user out", async () => {
  const token = await sessionOfAttacker(http);
  const page = await signIn(http, await newKey(http, "victim"));
  await visit(page.context(), http.byName + attackPage(plant(token)));
  // The console reads other paths too. Their answers must not leave a planted cookie alone with the next request.
  await page.evaluate(() => fetch("/v2/deployments", { headers: { "x-pierhead-console": "1" } }));
  const readUser = async () => {
    const user = await userOf(page);
    assert.notEqual(user, "attacker");
    return user;
  };
  await eventually(readUser, (user) => user === "victim");
  await page.context().close();
});

test("an agent's page cannot lock users out with so many cookies that no request arrives", async () => {
  for (const site of [http, https]) {
    const key = await newKey(site, "victim");
    const page = await signIn(site, key);
    const bomb = `for (let n = 0; n < 20; n++) document.cookie = "bomb" + n + "=" + "x".repeat(3900) + "; domain=${root}; path=/"`;
    await visit(page.context(), site.byName + attackPage(bomb));
    // The first request with these cookies is refused and clears them: this one, or one of a page that is still open.
    await page.goto(site.console);
    const again = await signIn(site, key, page.context());
    assert.equal(await userOf(again), "victim");
    await page.context().close();
  }
});

test("an agent on the console's origin cannot sign users out, overwrite or push out their session, or register a worker", async () => {
  for (const site of [http, https]) {
    const page = await signIn(site, await newKey(site, "victim"));
    const many = Array.from({ length: 90 }, (_, n) => `c${n}=1; Path=/`);
    const headers = {
      "clear-site-data": '"cookies", "storage", "cache"',
      "service-worker-allowed": "/",
      "strict-transport-security": "max-age=31536000",
      "set-cookie": [
        "pierhead_session=x; Path=/",
        "=pierhead_session=x; Path=/",
        "__Host-pierhead_session=x; Path=/; Secure",
      ],
    };
    await visit(page.context(), site.byPath + attackPage("", headers));
    for (const start of [0, 1, 2]) {
      const set = { "set-cookie": many.map((text) => text.replace("c", `c${start}-`)) };
      await visit(page.context(), site.byPath + attackPage("", set));
    }
    assert.equal(await userOf(page), "victim");
    const worker = `navigator.serviceWorker && navigator.serviceWorker.register("answer?type=text/javascript&headers={}", {scope:"/"}).then(() => { document.title = "registered" }, () => { document.title = "done" })`;
    await visit(page.context(), site.byPath + attackPage(`try { ${worker} } catch {}`));
    await page.reload();
    assert.equal(await userOf(page), "victim");
    assert.deepEqual(await page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length), 0);
    await page.context().close();
  }
});
