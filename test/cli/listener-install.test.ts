import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestServer } from "../support/server.ts";
import { runCli } from "./run-cli.ts";

test("`listener install --print` exchanges a token for a key once and explains the second attempt", async () => {
  await using server = await startTestServer({ PIERHEAD_COMPUTE: "none" });
  const { id, listener_key } = await server.client.createListener({
    body: { compute_type: "k8s", compute_id: "cluster", compute_config: { k8s_namespaces: ["agents"] } },
  });
  const { enrollment_token } = await server.client.createEnrollment({ listener_id: id });
  const install = (flags: string[], stdin: string) =>
    runCli(["listener", "install", "--print", "--url", server.url, "--agents", "agents,staging", ...flags], { stdin });
  const wrong = await install(["--token-file", "-", "--replicas", "two"], `${enrollment_token}\n`);
  assert.deepEqual([wrong.code, wrong.stdout], [2, ""]);
  const printed = await install(["--token-file", "-"], `${enrollment_token}\n`);
  assert.equal(printed.code, 0, printed.stderr);
  const shared = await install(["--token-file", "-", "--namespace", "staging"], enrollment_token);
  assert.deepEqual([shared.code, shared.stdout], [2, ""]);
  assert.match(shared.stderr, /could act as the listener/);
  const { items } = JSON.parse(printed.stdout) as { items: { kind: string; stringData?: { key: string } }[] };
  const key = items.find(({ kind }) => kind === "Secret")?.stringData?.key ?? "";
  assert.match(key, /^ph_/);
  assert.ok(key !== listener_key && key !== enrollment_token);
  const body = { instance_id: "i", version: "1", protocols: [1], compute_type: "k8s" };
  const opened = await fetch(`${server.url}/dp/v1/sessions`, {
    ...{ method: "POST", headers: { "x-api-key": key, "content-type": "application/json" } },
    body: JSON.stringify(body),
  });
  assert.equal(opened.status, 201);
  const again = await install(["--token-file", "-"], enrollment_token);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /Could not exchange the token[\s\S]*Request a new one/);
  assert.doesNotMatch(again.stderr + printed.stderr, /ph_/);
  const neither = await install([], "");
  assert.match(neither.stderr, /--key-file FILE or a token with --token-file/);
});
