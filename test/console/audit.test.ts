import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertNoBrowserErrors, startWorld } from "./world.ts";

const world = await startWorld({ PIERHEAD_COMPUTE: "none" });
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));

test("the audit log is searched for words, and the address keeps the search", async () => {
  await pierhead.client.createMember({ body: { email: "ada@example.org", role: "reader" } });
  await pierhead.client.createWebhook({ body: { url: "https://ci.invalid/hook", types: ["revision.status"] } });
  const page = await open({ path: "/host/audit" });
  const created = (what: string) => page.getByText(`created the ${what}`);
  await created("webhook").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("ADA@example member");
  await page.waitForURL(/[?&]q=ADA.*member/);
  await created("webhook").waitFor({ state: "detached" });
  await created("member").waitFor();
  await page.reload();
  await created("member").waitFor();
  const search = page.getByLabel("Search the audit log");
  assert.equal(await search.inputValue(), "ADA@example member");
  await search.fill("nothing-like-this");
  await page.getByRole("heading", { name: "No entries match “nothing-like-this”" }).waitFor();
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await findings(page), [], colorScheme);
  }
  await page.getByRole("link", { name: "Show all entries" }).click();
  await created("webhook").waitFor();
  await page.getByLabel("What").selectOption({ label: "Members" });
  await created("webhook").waitFor({ state: "detached" });
  await page.getByLabel("When").selectOption({ label: "Last 7 days" });
  await page.waitForURL(/what=member.*days=7/);
  await created("member").waitFor();
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await page.context().close();
});
