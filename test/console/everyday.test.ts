import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertQuiet, startWorld } from "./world.ts";

const world = await startWorld();
const { open } = world;
after(() => assertQuiet(world));

test("a key that is shown once is copied where the page is not served over https, too", async () => {
  const page = await open({ path: "/host/keys" });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.evaluate(() => navigator.clipboard.writeText("what was there before"));
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }));
  await page.getByRole("button", { name: "New key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("ci");
  await dialog.getByRole("button", { name: "Create" }).click();
  const key = await dialog.locator("code").last().innerText();
  await dialog.getByRole("button", { name: /^Copy: ph_/ }).click();
  await page.getByText("Copied.").waitFor();
  const copied = await page.evaluate(() => {
    Reflect.deleteProperty(navigator, "clipboard");
    return navigator.clipboard.readText();
  });
  assert.equal(copied, key);
  await page.context().close();
});
