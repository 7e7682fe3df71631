import assert from "node:assert/strict";
import type { Browser, BrowserContext, Page } from "playwright-core";
import type { ConsoleFigures, ConsolePlan } from "../../bench/console.ts";
import { createClient } from "../../src/client/client.ts";
import { consoleHeader } from "../../src/contract/administration/session.ts";
import { startBrowser } from "./browser.ts";
import { signIn } from "./world.ts";

/**
 * The browser's part of `npm run bench -- console`. Arguments: the URL of a server with deployments and log lines, and the plan as
 * JSON; `PIERHEAD_API_KEY` is its key. Prints the figures as JSON.
 */
const [url = "", plan = "{}"] = process.argv.slice(2);
const { loads, shownLines, scrollMs, interactions } = JSON.parse(plan) as ConsolePlan;
/** A deployment with everything that its pages show. The others are rows of the list. */
const opened = "newest-agent";
const key = process.env["PIERHEAD_API_KEY"] ?? "";
await createClient({ baseUrl: url, apiKey: key }).createDeployment({
  body: {
    ...{ name: opened, source: "internal_docker", source_config: {} },
    source_revision_config: { image_uri: "127.0.0.1:1/agent:1" },
  },
});
const browser = await startBrowser();
try {
  const context = await newContext(browser);
  const page = await context.newPage();
  await page.goto(url);
  await signIn(page, key);
  const signedIn = await context.storageState();
  const list = await timeList(signedIn);
  const figures: ConsoleFigures = {
    ...list,
    ...(await scrollLogs(page)),
    firstViewBytes: await firstViewBytes(),
    paintMs: await interact(page),
    ...(await plainPage()),
  };
  process.stdout.write(JSON.stringify(figures));
} finally {
  await browser.close();
}

type State = Awaited<ReturnType<BrowserContext["storageState"]>>;

/** In each page, records when the list had its rows, the frames, and the interactions. */
async function newContext(of: Browser, storageState?: State): Promise<BrowserContext> {
  const context = await of.newContext({
    viewport: { width: 1_200, height: 800 },
    ...(storageState !== undefined && { storageState }),
  });
  await context.addInitScript(() => {
    const recorded = { usableMs: 0, frameMs: [] as number[], isRecording: false, paints: {} as Record<number, number> };
    Object.assign(globalThis, { recorded });
    new MutationObserver((_, observer) => {
      if (document.querySelectorAll("tbody tr").length < 50) return;
      observer.disconnect();
      // The second frame begins after the rows of the first one are painted.
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          recorded.usableMs = performance.now();
        }),
      );
    }).observe(document, { childList: true, subtree: true });
    let before = 0;
    const onFrame = (now: number) => {
      if (recorded.isRecording && before > 0) recorded.frameMs.push(now - before);
      before = recorded.isRecording ? now : 0;
      requestAnimationFrame(onFrame);
    };
    requestAnimationFrame(onFrame);
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & { interactionId: number })[]) {
        if (entry.interactionId === 0) continue;
        recorded.paints[entry.interactionId] = Math.max(recorded.paints[entry.interactionId] ?? 0, entry.duration);
      }
    }).observe({ type: "event", durationThreshold: 16, buffered: true } as PerformanceObserverInit);
  });
  return context;
}

interface Recorded {
  usableMs: number;
  frameMs: number[];
  isRecording: boolean;
  paints: Record<number, number>;
}

async function timeList(state: State): Promise<Pick<ConsoleFigures, "firstVisitMs" | "usableMs" | "requestsMs">> {
  const taken = { firstVisitMs: [] as number[], usableMs: [] as number[], requestsMs: [] as number[] };
  for (let load = 0; load < loads; load += 1) {
    const context = await newContext(browser, state);
    const page = await context.newPage();
    taken.firstVisitMs.push(await usableMs(page));
    await page.goto("about:blank");
    taken.usableMs.push(await usableMs(page));
    taken.requestsMs.push(
      await page.evaluate(async (header) => {
        const beganAt = performance.now();
        for (const path of ["v2/session", "v2/deployments?limit=50"]) {
          const answer = await fetch(new URL(path, document.baseURI), { headers: { [header]: "1" } });
          if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
          await answer.text();
        }
        return performance.now() - beganAt;
      }, consoleHeader),
    );
    await context.close();
  }
  return taken;
}

/** Returns the milliseconds from the start of the navigation until the rows of the list are painted. */
async function usableMs(page: Page): Promise<number> {
  await page.goto(`${url}/host/deployments`);
  const found = await page.waitForFunction(() => (globalThis as unknown as { recorded: Recorded }).recorded.usableMs);
  return (await found.jsonValue()) as number;
}

async function firstViewBytes(): Promise<number> {
  const context = await newContext(browser);
  const page = await context.newPage();
  let bytes = 0;
  page.on("response", (response) => {
    const isCounted = ["script", "stylesheet"].includes(response.request().resourceType());
    bytes += isCounted ? Number(response.headers()["content-length"]) : 0;
  });
  await page.goto(`${url}/host/deployments`);
  await page.getByLabel("API key").waitFor();
  await context.close();
  assert.ok(bytes > 10_000, `${bytes} bytes`);
  return bytes;
}

function setRecording(page: Page, isOn: boolean): Promise<number[]> {
  return page.evaluate((isRecording) => {
    const { recorded } = globalThis as unknown as { recorded: Recorded };
    recorded.isRecording = isRecording;
    return recorded.frameMs;
  }, isOn);
}

/** Reads older lines by scrolling to the start again and again, then scrolls through what is shown. */
async function scrollLogs(page: Page): Promise<Pick<ConsoleFigures, "shownLines" | "frameMs">> {
  await page.goto(`${url}/host/logs?span=604800`);
  const list = page.getByRole("region", { name: "Log lines" });
  await list.locator(".ll").first().waitFor();
  await setRecording(page, true);
  const shown = await list.evaluate(async (element, wanted) => {
    const inAll = element.firstElementChild as HTMLElement;
    const lines = () => Math.round(inAll.offsetHeight / 24);
    const deadline = performance.now() + 60_000;
    while (lines() < wanted && performance.now() < deadline) {
      element.scrollBy({ top: -5_000 });
      await new Promise(requestAnimationFrame);
    }
    return lines();
  }, shownLines);
  await wheelThrough(page, ".log-scroll");
  return { shownLines: shown, frameMs: await setRecording(page, false) };
}

/** Scrolls with the wheel, down and up, as fast as a person turns it, and jumps as the scrollbar does. */
async function wheelThrough(page: Page, selector: string): Promise<void> {
  const box = await page.locator(selector).boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const endsAt = performance.now() + scrollMs;
  for (let turn = 0; performance.now() < endsAt; turn += 1) {
    await page.mouse.wheel(0, turn % 100 < 50 ? 600 : -500);
    if (turn % 20 === 0)
      await page
        .locator(selector)
        .evaluate((element, part) => element.scrollTo({ top: element.scrollHeight * part }), (turn % 7) / 7);
  }
}

/** Uses the pages as a person does: filters, sorts, selects, opens, searches. */
async function interact(page: Page): Promise<number[]> {
  const paints: number[] = [];
  const collect = async () => {
    // Entries of events arrive with one of the next frames.
    await page.waitForTimeout(200);
    const found = await page.evaluate(() => (globalThis as unknown as { recorded: Recorded }).recorded.paints);
    paints.push(...Object.values(found));
  };
  const main = page.getByRole("main");
  for (let round = 0; round < interactions; round += 1) {
    await page.goto(`${url}/host/deployments`);
    await page.locator("tbody tr").nth(49).waitFor();
    await page.getByLabel("Filter deployments").pressSequentially("agent-00001", { delay: 30 });
    await page.waitForURL(/q=agent-00001/);
    for (let back = 0; back < 11; back += 1) await page.keyboard.press("Backspace");
    await page.waitForURL((at) => !at.searchParams.has("q"));
    await page.locator('table[aria-busy="false"] tbody tr').nth(49).waitFor();
    await page.getByLabel("Select all on this page").click();
    await page.getByText("50 selected").waitFor();
    await page.getByLabel("Select all on this page").click();
    await page.getByRole("columnheader", { name: "Name" }).getByRole("button").click();
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("Page 2").waitFor();
    await page.getByLabel("Sort by").selectOption("created_at");
    await page.keyboard.press("Control+k");
    await page.getByRole("dialog").getByRole("option").first().waitFor();
    await page.keyboard.type("billing", { delay: 30 });
    await page.keyboard.press("Escape");
    await main.getByRole("link", { name: opened, exact: true }).click();
    const parts = page.getByRole("navigation", { name: "Parts of the deployment" });
    for (const name of ["Revisions", "Logs", "Metrics", "Variables", "Settings", "Overview"])
      await parts.getByRole("link", { name, exact: true }).click();
    await collect();
    await page.goto(`${url}/host/logs?span=604800`);
    await page.locator(".ll").first().waitFor();
    await page.getByLabel("Query", { exact: true }).pressSequentially("run_exec_ms level:error", { delay: 30 });
    await page.keyboard.press("Enter");
    await page.waitForURL(/level%3Aerror/);
    await page.locator(".ll.error").first().waitFor();
    for (let line = 0; line < 5; line += 1)
      await page
        .locator(".ll > button")
        .nth(20 + line)
        .click();
    await page.getByRole("region", { name: "Lines by deployment" }).getByRole("button").first().click();
    await page.getByLabel("Follow").click();
    await collect();
  }
  return paints;
}

/** The floor: a page of plain text that scrolls, with a button that changes a text. */
async function plainPage(): Promise<Pick<ConsoleFigures, "plainFrameMs" | "plainPaintMs">> {
  const context = await newContext(browser);
  const page = await context.newPage();
  await page.goto(`${url}/favicon.ico`);
  const lines = Array.from({ length: 3_000 }, (_, index) => `<div>line ${index} of a plain text</div>`).join("");
  await page.setContent(`<button>0</button><pre id="text" style="height:600px;overflow:auto">${lines}</pre>`);
  await page.evaluate(() => {
    const button = document.querySelector("button") as HTMLButtonElement;
    button.onclick = () => {
      button.textContent = String(Number(button.textContent) + 1);
    };
  });
  await setRecording(page, true);
  await wheelThrough(page, "#text");
  const plainFrameMs = await setRecording(page, false);
  for (let click = 0; click < 20; click += 1) await page.locator("button").click();
  await page.waitForTimeout(200);
  const paints = await page.evaluate(() => (globalThis as unknown as { recorded: Recorded }).recorded.paints);
  await context.close();
  // The browser reports no event that takes less than 16 ms.
  const plainPaintMs = Object.values(paints);
  return { plainFrameMs, plainPaintMs: plainPaintMs.length === 0 ? [16] : plainPaintMs };
}
