import assert from "node:assert/strict";
import { after } from "node:test";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { startTestServer, type TestServer } from "../support/server.ts";
import { seriousFindings } from "./axe.ts";

export interface World {
  pierhead: TestServer;
  browser: Browser;
  /** A browser of its own, signed in unless `key` is null; what it does is watched. */
  open(options?: { key?: string | null; width?: number; dark?: boolean; path?: string }): Promise<Page>;
  /** Every request that any page made: verb and URL. */
  requests: { verb: string; url: string }[];
  /** What no page may ever say: errors of scripts, and what the policy stopped. */
  complaints: string[];
  /** Serious and critical findings of axe-core. */
  findings(page: Page): Promise<string[]>;
}

const limitMs = 30_000;

/** A server, a browser, and what their pages did; all of it ends with the file's tests. */
export async function startWorld(environment: Record<string, string> = {}): Promise<World> {
  const pierhead = await startTestServer(environment);
  const browser = await chromium.launch({
    executablePath: process.env["PIERHEAD_TEST_CHROMIUM"] ?? "/usr/bin/chromium",
    // Without a sandbox it runs in containers too; it is shown nothing but our own pages, and reaches this machine only.
    args: [
      "--no-sandbox",
      "--disable-background-networking",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ],
  });
  after(async () => {
    await browser.close();
    await pierhead[Symbol.asyncDispose]();
  });
  const requests: World["requests"] = [];
  const complaints: string[] = [];
  const open: World["open"] = async ({ key = pierhead.apiKey, width = 1_200, dark = false, path: at = "/" } = {}) => {
    const context = await browser.newContext({
      viewport: { width, height: 800 },
      colorScheme: dark ? "dark" : "light",
      reducedMotion: "reduce",
    });
    watch(context, requests, complaints);
    const page = await context.newPage();
    page.setDefaultTimeout(limitMs);
    await page.goto(pierhead.url + at);
    if (key !== null) await signIn(page, key);
    return page;
  };
  return {
    pierhead,
    browser,
    open,
    requests,
    complaints,
    findings: seriousFindings,
  };
}

export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
}

function watch(context: BrowserContext, requests: World["requests"], complaints: string[]): void {
  context.on("request", (request) => requests.push({ verb: request.method(), url: request.url() }));
  context.on("weberror", (error) => complaints.push(String(error.error())));
  context.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on("console", (message) => {
    // A refusal that was provoked is logged by the browser, too; what matters of it is what the page shows.
    const isRefusal = message.text().startsWith("Failed to load resource: the server responded with a status of");
    if (message.type() === "error" && !isRefusal) complaints.push(message.text());
  });
}

/** Through the page's own links, as people go; a link that is missing fails here. */
export async function goTo(page: Page, name: string): Promise<void> {
  await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { name, level: 1 }).waitFor();
}

export async function goToPart(page: Page, name: string): Promise<void> {
  await page
    .getByRole("navigation", { name: "Parts of the deployment" })
    .getByRole("link", { name, exact: true })
    .click();
}

/** Whether another tab is before it: a browser without a window has them all in front. */
export async function setShown(page: Page, isShown: boolean): Promise<void> {
  await page.evaluate(
    (value) => {
      Object.defineProperty(document, "visibilityState", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    },
    isShown ? "visible" : "hidden",
  );
}

/** The address of a deployment's page, as clients print it. */
export const addressOf = ({ id, tenant_id }: { id: string; tenant_id: string }) =>
  `/o/${tenant_id}/host/deployments/${id}`;

export function assertQuiet({ complaints }: World): void {
  assert.deepEqual(complaints, []);
}

/** As the file manager's drag does: the browser is told of paths, and reads them itself. */
export async function dropFolder(page: Page, folder: string): Promise<void> {
  const box = await page.locator(".drop").boundingBox();
  assert.ok(box);
  const devtools = await page.context().newCDPSession(page);
  const at = { x: box.x + box.width / 2, y: box.y + 10, data: { items: [], files: [folder], dragOperationsMask: 1 } };
  for (const type of ["dragEnter", "dragOver", "drop"] as const) {
    await devtools.send("Input.dispatchDragEvent", { type, ...at });
  }
}
