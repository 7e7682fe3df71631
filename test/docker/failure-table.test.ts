import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { networkName } from "../../src/compute/docker/networks/networks.ts";
import { checkFailure, type ExpectedFailure } from "../support/failure-table.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { buildAgentImage } from "./base-image.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

const serve = (answer: string) => `
import { createServer } from "node:http";
createServer((_, response) => { ${answer} }).listen(Number(process.env.PORT), process.env.HOST);
process.on("SIGTERM", () => process.exit(0));
`;
const works = serve('response.end("ok")');

/** Failures that differ from those of plain processes, which test/e2e/failures.test.ts has. The way out of each is another image. */
const failures: (ExpectedFailure & { name: string; program?: string; variable?: string })[] = [
  {
    name: "start",
    program: 'throw new Error("config.yaml is broken");',
    ...{ word: "failed", code: "exited", action: "read_log" },
    message: /exit code 1 before it was ready\. Error: config\.yaml is broken/,
  },
  {
    name: "variable",
    program: `${works} if (!process.env.MODEL_KEY) throw new Error("MODEL_KEY is not set");`,
    variable: "MODEL_KEY",
    ...{ word: "failed", code: "variables_missing", action: "set_variable" },
    message: /MODEL_KEY is not set\. Set it with: pierhead env set variable MODEL_KEY/,
  },
  {
    name: "disk",
    program: `import { writeFileSync } from "node:fs"; ${works} writeFileSync("/tmp/big", Buffer.alloc(80 << 20, 1));`,
    ...{ word: "crash_looping", code: "out_of_disk", action: "deploy" },
    message: /ends soon after each start\. .*more than its disk limit of 64 MiB/,
  },
  {
    name: "missing",
    ...{ word: "failed", code: "image_missing", action: "deploy" },
    message: /image .* cannot be pulled: .*manifest unknown.* Push the image, correct its name/,
  },
  {
    name: "unreachable",
    ...{ word: "failed", code: "image_missing", action: "deploy" },
    message: /The image 127\.0\.0\.1:1\/team\/agent:1 cannot be pulled now: /,
  },
  {
    name: "memory",
    program: "const held = []; setInterval(() => held.push(Buffer.alloc(16 << 20, 1)), 5);",
    ...{ word: "failed", code: "out_of_memory", action: "deploy" },
    message: /memory limit of 128 MiB before it was ready/,
  },
  {
    name: "later",
    program: `${works} setTimeout(() => { throw new Error("lost the model"); }, 1500);`,
    ...{ word: "crash_looping", code: "exited", action: "read_log" },
    message: /ends soon after each start\. .* Error: lost the model/,
  },
  {
    name: "health",
    program: serve("response.writeHead(503).end()"),
    ...{ word: "failed", code: "never_healthy", action: "read_log" },
    message: /did not answer 200 on \/ok within 15 s .*503/,
  },
];

const imageOf = (name: string) => `pierhead-test/failure-${name}:1`;

describe("docker: failures and their ways out", { skip: dockerSkipped, concurrency: true }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  let pierhead: TestServer;
  /** Knows no image. */
  const registry = createServer(({ url }, response) => {
    const body = { errors: [{ code: "MANIFEST_UNKNOWN", message: "manifest unknown" }] };
    response.writeHead(url === "/v2/" ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(body));
  });

  before(async () => {
    ({ engine, end } = await engineForTests());
    await buildAgentImage(engine, imageOf("works"), works);
    for (const { name, program } of failures)
      if (program !== undefined) await buildAgentImage(engine, imageOf(name), program);
    await new Promise<void>((listening) => registry.listen(0, "127.0.0.1", listening));
    const settings = { DOCKER_HOST: engine.host, PIERHEAD_DEPLOY_TIMEOUT_MS: "15000", PIERHEAD_DOCKER_DISK_MIB: "64" };
    pierhead = await startTestServer({ PIERHEAD_COMPUTE: "docker", ...settings });
  });
  after(async () => {
    await pierhead?.[Symbol.asyncDispose]();
    registry.close();
    await end?.();
  });

  const nameOf = (name: string) => {
    const { port } = registry.address() as { port: number };
    if (name === "missing") return `127.0.0.1:${port}/team/agent:1`;
    return name === "unreachable" ? "127.0.0.1:1/team/agent:1" : imageOf(name);
  };

  for (const { name, program: _, variable, ...expected } of failures) {
    const wayOut = variable === undefined ? "another image serves" : `it serves once ${variable} is set`;
    test(`${name}: ${expected.word} because of ${expected.code}, and ${wayOut}`, async () => {
      const { client } = pierhead;
      const { id } = await client.createDeployment({
        body: {
          name,
          source: "external_docker",
          source_config: { resource_spec: { cpu: 0.5, memory_mb: 128, memory_limit_mb: 128 } },
          source_revision_config: { image_uri: nameOf(name) },
        },
      });
      const body = { source_revision_config: { image_uri: imageOf("works") } };
      await checkFailure(client, id, expected, () =>
        variable === undefined
          ? client.patchDeployment({ deployment_id: id, body })
          : client.changeVariables({ deployment_id: id, body: { set: [{ name: variable, value: "secret" }] } }),
      );
    });
  }

  /** Docker reserves nothing, so a machine is full only when the engine reports it: here its network has no address left. */
  test("room: failed because of no_capacity, and the same revision serves once there is room", async () => {
    await using small = await startTestServer({
      ...{ PIERHEAD_COMPUTE: "docker", DOCKER_HOST: engine.host, PIERHEAD_DEPLOY_TIMEOUT_MS: "15000" },
    });
    const { client } = small;
    const { resources: workspaces } = await client.listWorkspaces({});
    const installationId = (await readFile(path.join(small.dataDir, "instance-id"), "utf8")).trim();
    const Name = networkName(installationId, workspaces[0]?.id ?? "");
    // The bridge has the first of two addresses, a container of another program the second.
    const IPAM = { Config: [{ Subnet: "10.213.57.0/30" }] };
    await engine.call("POST", "/networks/create", { body: { Name, Driver: "bridge", IPAM } });
    const HostConfig = { NetworkMode: Name };
    const other = await engine.call<{ Id: string }>("POST", "/containers/create", {
      body: { Image: imageOf("works"), Cmd: ["node", "-e", "setInterval(() => {}, 1e6)"], HostConfig },
    });
    const remove = () => engine.callUnless([404], "DELETE", `/containers/${other.Id}`, { query: { force: true } });
    try {
      await engine.call("POST", `/containers/${other.Id}/start`);
      const { id } = await client.createDeployment({
        body: {
          ...{ name: "room", source: "external_docker", source_config: {} },
          source_revision_config: { image_uri: imageOf("works") },
        },
      });
      const expected: ExpectedFailure = {
        ...{ word: "failed", code: "no_capacity", action: "deploy" },
        message: /The machine of the container engine has no room: .*no available IPv4 addresses/,
      };
      await checkFailure(client, id, expected, async () => {
        await remove();
        await client.retryDeployment({ deployment_id: id });
      });
      assert.equal((await client.getDeployment({ deployment_id: id })).health.status, "live");
    } finally {
      await remove();
    }
  });
});
