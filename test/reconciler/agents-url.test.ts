import assert from "node:assert/strict";
import { eachDatabase } from "../support/database.ts";
import { deployingSite, settings } from "./deploying-site.ts";

eachDatabase(
  "agents get the address that their listener announces, also when it announces it after their assignment",
  async (db) => {
    const site = await deployingSite(db);
    await site.passDue();
    assert.equal(await site.agentUrl(), `${settings.deploymentsUrl}${site.slug}`);
    await site.connect("https://{slug}.agents.example.com");
    await site.passDue();
    assert.equal(await site.agentUrl(), `https://${site.slug}.agents.example.com`);
    await site.becomesReady();
    await site.passDue();
    await site.connect("https://{slug}.moved.example.com");
    await site.passDue();
    assert.equal(await site.agentUrl(), `https://${site.slug}.moved.example.com`);
    const { generation } = await site.desired();
    await site.connect("https://{slug}.moved.example.com");
    await site.passDue();
    assert.equal((await site.desired()).generation, generation, "an unchanged address leads to no new assignment");
  },
);
