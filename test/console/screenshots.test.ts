import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { makeThreads, type Shown, screens } from "./screens.ts";
import { makeShown, shownSettings } from "./shown-world.ts";
import { addressOf, assertNoBrowserErrors, signIn, startWorld } from "./world.ts";

/** Keeps the documentation small. */
const bytesMax = 200_000;

const directory = process.env["PIERHEAD_TEST_SCREENSHOTS"] ?? "screenshots";
/** Widths for a review, such as `1440,390`. Empty: the pictures of the documentation. */
const reviewWidths = (process.env["PIERHEAD_TEST_REVIEW"] ?? "").split(",").map(Number).filter(Boolean);
const isReview = reviewWidths.length > 0;
await mkdir(directory, { recursive: true });

const world = await startWorld(await shownSettings());
const { pierhead, open } = world;
after(() => assertNoBrowserErrors(world));

/** The pictures of the documentation. */
const modes: Mode[] = [{ suffix: "", width: 1_120, height: 680, isDark: false }];
/** All pages in all forms, for a review. */
const reviewModes: Mode[] = reviewWidths.flatMap((width) =>
  [false, true].map((isDark) => ({
    suffix: `-${width}-${isDark ? "dark" : "light"}`,
    ...{ width, height: width < 600 ? 844 : 900, isDark },
  })),
);

interface Mode {
  suffix: string;
  width: number;
  height: number;
  isDark: boolean;
}

/** Three panes need more room. */
const wide = ["chat", "threads", "state", "configuration", "compared-runs"];

async function takeAll(page: Page, shown: Shown, mode: Mode): Promise<void> {
  const { suffix, width, height, isDark } = mode;
  await page.emulateMedia({ colorScheme: isDark ? "dark" : "light" });
  for (const { name, open: show } of screens) {
    const isWide = suffix === "" && wide.includes(name);
    await page.setViewportSize(isWide ? { width: 1_340, height: 760 } : { width, height });
    await show(page, shown);
    // The last screen is the sign-in.
    await take(page, `${name}${suffix}`);
  }
  // A phone hides the pages in a menu, and the sign-in waits for them.
  await page.setViewportSize({ width: 1_340, height: 760 });
  await signIn(page, pierhead.apiKey);
}

async function take(page: Page, name: string): Promise<void> {
  const picture = await page.screenshot({ path: path.join(directory, `${name}.png`) });
  assert.ok(isReview || picture.length <= bytesMax, `${name}.png has ${picture.length} bytes`);
}

test("takes the pictures of the documentation from a running server and keeps them small", async () => {
  const made = await makeShown(pierhead);
  const page = await open({ width: 1_340 });
  const shown = { ...made, threads: await makeThreads(page, made) };
  for (const mode of isReview ? reviewModes : modes) await takeAll(page, shown, mode);
  await page.emulateMedia({ colorScheme: "dark" });
  // The first page of the documentation shows it to readers of a dark site.
  await page.setViewportSize({ width: 1_120, height: 680 });
  await screens.find(({ name }) => name === "deployments")?.open(page, shown);
  await take(page, "deployments-dark");
  await page.setViewportSize({ width: 360, height: 640 });
  await page.goto(pierhead.url + addressOf(made.orders));
  await page.getByRole("region", { name: "Active revision" }).waitFor();
  await take(page, "narrow");
  await page.context().close();
});
