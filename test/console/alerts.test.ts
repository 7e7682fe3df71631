import assert from "node:assert/strict";
import { after, test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { assertNoBrowserErrors, startWorld } from "./world.ts";

const world = await startWorld({ PIERHEAD_COMPUTE: "none" });
const { pierhead, open } = world;
after(() => assertNoBrowserErrors(world));
const { client } = pierhead;

test("the alerts page shows what fires, mutes a deployment, changes rules and says where alerts are sent", async () => {
  const body = { name: "broken", source: "internal_source" as const, source_config: {}, source_revision_config: {} };
  const made = await client.createDeployment({ body });
  await pierhead.server.db.query(sql`
    insert into alerts (id, tenant_id, deployment_id, kind, state, message, notified, resolved_at)
    values (gen_random_uuid(), ${made.tenant_id}, ${made.id}, 'error_share', 'resolved',
            '5 of 40 requests failed in 10 minutes.', true, now())`);
  const page = await open({ path: "/host/alerts" });
  await page.getByText("Nothing fires").waitFor();
  await page.getByText("Alerts are sent nowhere.").waitFor();
  await page.getByRole("button", { name: "Resolved" }).click();
  await page.getByText("5 of 40 requests failed").waitFor();
  await page.getByRole("button", { name: "Mute for 2 h: broken" }).click();
  await page.getByRole("button", { name: "Unmute broken" }).waitFor();
  await client.changeAlertRule({ body: { kind: "latency_p95", threshold: 3_000 } });
  await page.getByRole("button", { name: "Turn on Latency, p95" }).click();
  await page.getByRole("button", { name: "Turn off Latency, p95" }).waitFor();
  const rule = page.getByRole("row").filter({ hasText: "Latency, p95" });
  await rule.getByText("3,000 ms").waitFor();
  await rule.getByRole("button", { name: "Change Latency, p95" }).click();
  assert.equal(await page.getByLabel("Fires from, ms").inputValue(), "3000");
  await page.getByLabel("Fires from, ms").fill("2000");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await rule.getByText("2,000 ms").waitFor();
  await rule.getByText("default 5,000 ms").waitFor();
  const { rules } = await client.listAlertRules({});
  const changed = rules.find(({ kind }) => kind === "latency_p95");
  assert.deepEqual([changed?.enabled, changed?.threshold], [true, 2_000]);
  await client.createWebhook({ body: { url: "http://127.0.0.1:1/alerts", types: ["alert.firing"] } });
  await page.reload();
  await page.getByText("http://127.0.0.1:1/alerts").waitFor();
  await pierhead.server.db.query(sql`
    insert into alerts (id, tenant_id, subject_id, subject, kind, state, message, notified, resolved_at)
    values (gen_random_uuid(), ${made.tenant_id}, 'k', 'ci', 'key_expiry', 'resolved', 'The API key ci expires.', true, now())`);
  await page.getByRole("button", { name: "Resolved" }).click();
  const about = page.getByRole("row").filter({ hasText: "The API key ci expires" });
  await about.getByRole("link", { name: "ci" }).waitFor();
  await about.getByRole("button", { name: "Mute for 2 h: ci" }).click();
  await about.getByRole("button", { name: "Unmute ci" }).waitFor();

  await page.goto(`${pierhead.url}/o/${made.tenant_id}/host/deployments/${made.id}/settings`);
  await page.getByRole("button", { name: "Turn off Error share" }).click();
  const own = page.getByRole("row").filter({ hasText: "Error share" });
  await own.getByText("only here").waitFor();
  assert.equal(await page.getByRole("row").filter({ hasText: "Disk" }).count(), 0, "a deployment has no such rule");
  await page.getByRole("button", { name: "Error share: as the workspace has it" }).click();
  await page.getByRole("button", { name: "Turn off Error share" }).waitFor();
  await own.getByText("only here").waitFor({ state: "detached" });
  await page.context().close();
});
