import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { Compute } from "../../src/compute/compute.ts";
import { openCompute } from "../../src/server/compute.ts";
import { readListenerConfig } from "../../src/server/listener-config.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { answeringEngine } from "../compute/answering-engine.ts";
import { soon } from "../compute/compute-world.ts";
import { anySpec } from "../compute/conformance.ts";

test("a listener on a host of its own pulls images with the operator's credentials for their registry", async (context) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-listener-"));
  const authFile = path.join(dataDir, "config.json");
  const auth = Buffer.from("operator:key").toString("base64");
  await writeFile(authFile, JSON.stringify({ auths: { "registry.example.com": { auth } } }));
  let given: string | undefined;
  const { host } = await answeringEngine(context, ({ url = "", headers }, response) => {
    if (url.includes("/images/create")) {
      given = headers["x-registry-auth"] as string | undefined;
      response.end('{"error":"manifest unknown"}\n');
    } else if (url.includes("/images/")) response.writeHead(404).end('{"message":"no such image"}');
    else if (url.includes("/events")) response.write("\n");
    else response.end(url.endsWith("/info") ? "{}" : "[]");
  });
  const config = readListenerConfig({
    ...{ PIERHEAD_URL: "http://127.0.0.1:1", PIERHEAD_LISTENER_KEY: "key", PIERHEAD_COMPUTE: "docker" },
    ...{ PIERHEAD_DATA_DIR: dataDir, DOCKER_HOST: host, PIERHEAD_REGISTRY_AUTH_FILE: authFile },
  });
  const options = { installationId: "00000000-0000-4000-8000-000000000000", logger: createLogger("silent") };
  const compute = (await openCompute(config, options)) as Compute;
  context.after(async () => {
    await compute.close();
    await rm(dataDir, { recursive: true });
  });
  const uri = "registry.example.com/team/agent:1";
  const spec = anySpec({ kind: "image", digest: "agent:1", uri, health_path: "/ok", rollout: "rolling" });
  await compute.ensure(spec, soon());
  const [refused] = await compute.observe(soon());
  assert.match(refused?.exit?.message ?? "", /manifest unknown/);
  assert.deepEqual(JSON.parse(Buffer.from(given ?? "", "base64url").toString()), {
    username: "operator",
    password: "key",
    serveraddress: "registry.example.com",
  });
});
