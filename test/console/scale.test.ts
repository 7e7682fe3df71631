import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { after, test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { assertNoBrowserErrors, startWorld } from "./world.ts";

const world = await startWorld({ PIERHEAD_COMPUTE: "none" });
const { pierhead, open } = world;
after(() => assertNoBrowserErrors(world));

const deployments = 10_000;
/** Gzipped scripts and style sheets of the first view. */
const firstViewBytesMax = 250 * 1_024;

/** Copies one deployment as rows, because only their number matters here. */
async function fill(): Promise<void> {
  const body = { name: "one", source: "internal_source" as const, source_config: {}, source_revision_config: {} };
  const { id } = await pierhead.client.createDeployment({ body });
  const { rows: columns } = await pierhead.server.db.query<{ name: string }>(sql`
    select column_name as name from information_schema.columns
     where table_name = 'deployments' and is_generated = 'NEVER' and identity_generation is null
       and column_name not in ('id', 'name', 'slug', 'created_at')`);
  const copied = sql.join(columns.map(({ name }) => sql.identifier(name)));
  await pierhead.server.db.query(sql`
    insert into deployments (id, name, slug, created_at, ${copied})
    select gen_random_uuid(), 'agent-' || n, 'agent-' || n, now() - n * interval '1 second', ${copied}
      from deployments, generate_series(2, ${deployments}) n where id = ${id}`);
}

test("the server filters, sorts and pages a list of 10,000 deployments, and the first view is small (G16)", async (t) => {
  await fill();
  const page = await open();
  const row = page.locator("tbody tr");
  const times: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    await page.goto("about:blank");
    const beganAt = performance.now();
    await page.goto(`${pierhead.url}/host/deployments`);
    await row.nth(49).waitFor();
    times.push(performance.now() - beganAt);
  }
  assert.equal(await row.count(), 50);
  const searchedAt = performance.now();
  await page.getByLabel("Filter deployments").fill("agent-9999");
  await page.getByRole("main").getByRole("link", { name: "agent-9999" }).waitFor();
  const searchMs = performance.now() - searchedAt;
  assert.equal(await row.count(), 1);
  await page.goto(`${pierhead.url}/host/deployments?page=150`);
  await page.getByText("Page 150").waitFor();
  await row.nth(49).waitFor();

  await page.goto(`${pierhead.url}/host/deployments`);
  const sortedAt = performance.now();
  await page.getByRole("columnheader", { name: "Name" }).getByRole("button").click();
  await row.first().getByRole("link", { name: "agent-10", exact: true }).waitFor();
  const sortMs = performance.now() - sortedAt;
  await page.getByRole("columnheader", { name: "Name" }).getByRole("button").click();
  await row.first().getByRole("link", { name: "one", exact: true }).waitFor();
  assert.equal(await page.getByRole("columnheader", { name: "Name" }).getAttribute("aria-sort"), "descending");
  assert.match(page.url(), /sort=name&order=desc/);
  await page.reload();
  await row.first().getByRole("link", { name: "one", exact: true }).waitFor();

  const cold = await open({ key: null });
  await cold.getByLabel("API key").waitFor();
  let coldBytes = 0;
  cold.on("response", (response) => {
    const isCounted = ["script", "stylesheet"].includes(response.request().resourceType());
    coldBytes += isCounted ? Number(response.headers()["content-length"]) : 0;
  });
  await cold.goto(`${pierhead.url}/host/deployments`);
  await cold.getByLabel("API key").waitFor();
  assert.ok(coldBytes > 10_000 && coldBytes <= firstViewBytesMax, `${coldBytes} bytes`);
  assert.ok((await readdir("dist/console/assets")).length > 3);
  const median = times.toSorted((a, b) => a - b)[2] ?? 0;
  t.diagnostic(
    `G16: ${deployments} deployments, list usable after ${Math.round(median)} ms (median of 5, goal 1000), ` +
      `filtered after ${Math.round(searchMs)} ms, sorted after ${Math.round(sortMs)} ms, ${Math.round(coldBytes / 1_024)} KiB of gzipped scripts and styles (goal 250)`,
  );
});

test("a page that stays open over an upgrade already has all of the client", async () => {
  const page = await fetch(`${pierhead.url}/host/deployments`).then((answer) => answer.text());
  const named = [...page.matchAll(/assets\/[\w.-]+\.js/g)].map(([file]) => readFile(`dist/console/${file}`, "utf8"));
  const scripts = (await Promise.all(named)).join("");
  // Texts of waiting, watching and following, which the client loads when they are first used.
  for (const words of ["is still being deleted", "/v2/events", "next_offset"])
    assert.ok(scripts.includes(words), words);
});
