import assert from "node:assert/strict";
import { test } from "node:test";
import { isPublicAddress } from "../../src/integrations/outbound-address.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";

/** Addresses of the IANA special-purpose registries, and forms of IPv6 that contain an IPv4 address. */
const special = [
  ...[
    "::",
    "::1",
    "::127.0.0.1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1",
    "::ffff:0:a00:1",
  ],
  ...["64:ff9b::127.0.0.1", "64:ff9b:1::a00:1", "64:ff9b:2::1", "100::1", "100:0:0:1::1", "1000::1", "1fff::1"],
  ...[
    "2001::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:30::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
  ],
  ...["2620:4f:8000::1", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1", "8000::1", "fc00::1", "fd00::1", "fe80::1"],
  ...["fe80::1%lo", "fec0::1", "ff02::1", "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255"],
  ...["127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.0.170"],
  ...["192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.1", "192.175.48.1", "198.18.0.1"],
  ...["198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"],
];

const global = [
  ...["1.1.1.1", "8.8.8.8", "9.255.255.255", "100.63.255.255", "172.15.0.1", "172.32.0.1", "192.0.1.1", "198.20.0.1"],
  ...[
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
    "2001:4860:4860::8888",
    "2400:cb00::1",
    "2003::1",
  ],
];

test("does not take an address of a special-purpose registry for a public one", () => {
  for (const address of special) assert.equal(isPublicAddress(address), false, address);
  for (const address of global) assert.equal(isPublicAddress(address), true, address);
});

test("does not call a special address, and does not reveal the address of a name", async () => {
  await using server = await startTestServer({
    PIERHEAD_COMPUTE: "simulated",
    PIERHEAD_PUBLIC_URL: "https://pierhead.example.org",
  });
  const headers = { "x-api-key": server.apiKey, "content-type": "application/json" };
  const ask = async (pathname: string, body: unknown) => {
    const answer = await fetch(`${server.url}${pathname}`, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: answer.status, text: await answer.text() };
  };
  for (const address of special.filter((one) => !one.includes("%"))) {
    const host = address.includes(":") ? `[${address}]` : address;
    const answer = await ask("/v2/webhooks", { url: `https://${host}/hook` });
    assert.ok(answer.status === 400, `${address}: ${answer.status} ${answer.text}`);
  }
  const made = await ask("/v2/webhooks", { url: "https://localhost/hook" });
  const { id: webhookId } = JSON.parse(made.text) as { id: string };
  await ask(`/v2/webhooks/${webhookId}/test`, undefined);
  const deliveries = await eventually(
    async () => (await server.client.listWebhookDeliveries({ webhook_id: webhookId })).items,
    ([first]) => first?.error != null,
  );
  const { status, text } = await ask("/v2/deployments", {
    name: "inside",
    source: "github",
    source_config: { repo_url: "https://localhost/acme/bot", deployment_type: "dev", build_on_push: false },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
  });
  assert.equal(status, 201, text);
  const { id, latest_revision_id: revision } = JSON.parse(text) as { id: string; latest_revision_id: string };
  const ids = { deployment_id: id, revision_id: revision };
  const { status_message: message } = await eventually(
    () => server.client.getRevision(ids),
    ({ status_message }) => status_message != null,
  );
  for (const problem of [JSON.stringify(deliveries), message ?? ""]) {
    assert.match(problem, /localhost is not a public address/);
    assert.doesNotMatch(problem, /127\.0\.0\.1|::1/);
  }
});
