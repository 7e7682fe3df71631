import assert from "node:assert/strict";
import { after } from "node:test";
import type { Browser, BrowserContext, Locator, Page } from "playwright-core";
import { startTestServer, type TestServer } from "../support/server.ts";
import { axeFindings } from "./axe.ts";
import { startBrowser } from "./browser.ts";

export interface World {
  pierhead: TestServer;
  browser: Browser;
  /** Opens a page in a browser context of its own, signed in unless `key` is null. Its requests and errors are recorded. */
  open(options?: OpenOptions): Promise<Page>;
  /** Every request of any page: method and URL. */
  requests: { verb: string; url: string }[];
  /** Script errors, dialogs and policy violations, which no page may cause. */
  browserErrors: string[];
  /** Findings of axe-core. */
  findings(page: Page): Promise<string[]>;
}

interface OpenOptions {
  key?: string | null;
  width?: number;
  dark?: boolean;
  path?: string;
  /** Whether fingers touch the screen, which needs larger buttons. */
  isTouched?: boolean;
}

const limitMs = 30_000;

/** Starts a server and a browser, which end with the tests of the file. */
export async function startWorld(environment: Record<string, string> = {}): Promise<World> {
  const pierhead = await startTestServer(environment);
  const browser = await startBrowser();
  after(async () => {
    await browser.close();
    await pierhead[Symbol.asyncDispose]();
  });
  const requests: World["requests"] = [];
  const browserErrors: string[] = [];
  const open: World["open"] = async (options = {}) => {
    const { key = pierhead.apiKey, width = 1_200, dark = false, path: at = "/", isTouched = false } = options;
    const context = await browser.newContext({
      hasTouch: isTouched,
      viewport: { width, height: 800 },
      colorScheme: dark ? "dark" : "light",
      reducedMotion: "reduce",
    });
    watch(context, requests, browserErrors);
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
    browserErrors,
    findings: axeFindings,
  };
}

export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
}

function watch(context: BrowserContext, requests: World["requests"], browserErrors: string[]): void {
  context.on("request", (request) => requests.push({ verb: request.method(), url: request.url() }));
  context.on("weberror", (error) => browserErrors.push(String(error.error())));
  context.on("dialog", (dialog) => {
    browserErrors.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on("console", (message) => {
    // The browser also logs every provoked HTTP error. The tests check how the page shows these.
    const isRefusal = message.text().startsWith("Failed to load resource: the server responded with a status of");
    // Another suite may add or remove a network interface of this machine at any time.
    const isOfMachine = message.text().includes("net::ERR_NETWORK_CHANGED");
    if (message.type() === "error" && !isRefusal && !isOfMachine) browserErrors.push(message.text());
  });
}

export async function signOut(page: Page): Promise<void> {
  await page.locator(".account").click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
}

/** What the first `Copy as` menu of this part of the page copies, by format. */
export async function copiesOf(part: Locator): Promise<Record<string, string>> {
  // A press that lasts: the button must not move away from the pointer while its menu opens.
  await part.getByRole("button", { name: "Copy as" }).first().click({ delay: 400 });
  const items = part.page().getByRole("menuitem");
  await items.first().waitFor();
  const named = await items.evaluateAll((all) => all.map((one) => [one.textContent, (one as HTMLElement).title]));
  await part.page().keyboard.press("Escape");
  await items.first().waitFor({ state: "detached" });
  return Object.fromEntries(named) as Record<string, string>;
}

/** Opens a page through its link in the navigation. Fails if the link is missing. */
export async function goTo(page: Page, name: string): Promise<void> {
  const pages = page.getByRole("navigation", { name: "Pages", exact: true });
  if (name === "Deployments") await pages.getByRole("link", { name, exact: true }).click();
  else {
    await pages.getByRole("link", { name: "Settings", exact: true }).click();
    await page
      .getByRole("navigation", { name: "Settings", exact: true })
      .getByRole("link", { name, exact: true })
      .click();
  }
  await page.getByRole("heading", { name, level: 1 }).waitFor();
}

export async function goToPart(page: Page, name: string): Promise<void> {
  await page
    .getByRole("navigation", { name: "Parts of the deployment" })
    .getByRole("link", { name, exact: true })
    .click();
}

/** Puts the page in front or in the background. A headless browser keeps all of its pages in front. */
export async function setShown(page: Page, isShown: boolean): Promise<void> {
  await page.evaluate(
    (value) => {
      Object.defineProperty(document, "visibilityState", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    },
    isShown ? "visible" : "hidden",
  );
}

/** Returns the address of a deployment's page in the form that clients print. */
export const addressOf = ({ id, tenant_id }: { id: string; tenant_id: string }) =>
  `/o/${tenant_id}/host/deployments/${id}`;

export function assertNoBrowserErrors({ browserErrors }: World): void {
  assert.deepEqual(browserErrors, []);
}

/** Drops a folder like a file manager: the browser receives paths and reads the files itself. */
export async function dropFolder(page: Page, folder: string): Promise<void> {
  const box = await page.locator(".drop").boundingBox();
  assert.ok(box);
  const devtools = await page.context().newCDPSession(page);
  const at = { x: box.x + box.width / 2, y: box.y + 10, data: { items: [], files: [folder], dragOperationsMask: 1 } };
  for (const type of ["dragEnter", "dragOver", "drop"] as const) {
    await devtools.send("Input.dispatchDragEvent", { type, ...at });
  }
}
