import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { eventually } from "../support/eventually.ts";
import { layoutFaults } from "./layout.ts";
import { makeThreads, screens } from "./screens.ts";
import { makeShown, shownSettings } from "./shown-world.ts";
import { assertNoBrowserErrors, startWorld } from "./world.ts";

const world = await startWorld(await shownSettings());
const { pierhead, open } = world;
after(() => assertNoBrowserErrors(world));

const made = await makeShown(pierhead);
const first = await open({ width: 1_340 });
const shown = { ...made, threads: await makeThreads(first, made) };
await first.context().close();

test("the inspection reports an overlap, a part outside of its card or of the window, and text that is cut off", async () => {
  const page = await world.browser.newPage({ viewport: { width: 400, height: 400 } });
  const faultsOf = async (markup: string) => {
    await page.setContent(`<body style="margin: 0">${markup}`);
    return layoutFaults(page);
  };
  const good = `<button>One</button> <a href="#">Two</a> <p style="overflow: hidden; text-overflow: ellipsis">Three`;
  assert.deepEqual(await faultsOf(good), []);
  const [overlap = ""] = await faultsOf(`<button>One</button><button style="margin-left: -20px">Two</button>`);
  assert.match(overlap, /"One" overlaps .*"Two"/);
  const [outside = ""] = await faultsOf(`<div style="width: 40px; border: 1px solid"><button style="width: 90px">One`);
  assert.match(outside, /"One" sticks out of/);
  const wide = await faultsOf(`<button style="width: 500px">One`);
  assert.match(wide.join(), /500 px wide.*"One" lies outside of the window/);
  const line = `<p style="width: 60px; overflow: hidden; white-space: nowrap`;
  assert.match((await faultsOf(`${line}">Words that are cut`)).join(), /is cut by/);
  assert.deepEqual(await faultsOf(`${line}; text-overflow: ellipsis">Words that are cut`), []);
  assert.match((await faultsOf(`<select style="width: 60px"><option>A long choice`)).join(), /cuts "A long choice"/);
  const select = "<select><option>Any</select>";
  const strays = await faultsOf(`<search style="display: block; width: 100px">${select.repeat(3)}</search>`);
  assert.match(strays.join(), /stands in another line/);
  await page.context().close();
});

for (const width of [1_440, 1_100, 1_000, 390]) {
  test(`no part of a page overlaps another, sticks out or is cut off at ${width} px`, async () => {
    const page = await open({ width: 1_340, isTouched: width < 600 });
    await page.setViewportSize({ width, height: width < 600 ? 844 : 900 });
    const seen: Record<string, string[]> = {};
    for (const { name, open: show } of screens) {
      await show(page, shown);
      const faults = await lastingFaults(page);
      if (faults.length > 0) seen[name] = faults;
    }
    await page.context().close();
    assert.deepEqual(seen, {});
  });
}

/** On a busy machine, a part that is still loading may move the others. */
async function lastingFaults(page: Page): Promise<string[]> {
  let faults: string[] = [];
  const read = async () => {
    faults = await layoutFaults(page);
    return faults;
  };
  return eventually(read, ({ length }) => length === 0, { timeoutMs: 5_000 }).catch(() => faults);
}
