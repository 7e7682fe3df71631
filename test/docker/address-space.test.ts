import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ask, withQuietDockerd } from "./docker-world.ts";
import { missingForDockerd } from "./dockerd.ts";

interface NetworkOfEngine {
  Name: string;
  IPAM: { Config: { Subnet: string }[] };
}

describe("docker: an engine without addresses for another network", { skip: missingForDockerd() ?? false }, () => {
  test("further workspaces get networks in subnets of our own, one each", async () => {
    await withQuietDockerd({ pool: "base=10.129.0.0/28,size=28" }, async (_dockerd, world) => {
      const tenants = ["first", "second", "third"];
      const answers = tenants.map(async (tenantId) => {
        return ask(await world.start(await world.agent("healthy", { tenantId })), "/ok");
      });
      assert.deepEqual(new Set(await Promise.all(answers)), new Set(['{"ok":true}']));
      const networks = await world.engine.call<NetworkOfEngine[]>("GET", "/networks");
      const ours = networks.filter(({ Name }) => Name.startsWith("pierhead-"));
      const subnets = ours.map(({ IPAM }) => IPAM.Config[0]?.Subnet).sort();
      assert.deepEqual(subnets, ["10.129.0.0/28", "10.199.0.0/24", "10.199.1.0/24"]);
    });
  });
});
