import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { createDirectory } from "../cli/run-cli.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { freePort } from "../support/free-port.ts";
import { blocksOf, commandsOf, runCommand } from "../support/guide.ts";
import { startTestServer } from "../support/server.ts";

const page = "docs/guides/regions.md";

/** Sends each request to the first of these addresses that is healthy, like a name with health checks. */
async function startFront(addresses: string[]) {
  const isHealthy = (address: string) =>
    fetch(`${address}/ok`).then(
      ({ ok }) => ok,
      () => false,
    );
  const server = createServer(async (request, response) => {
    for (const address of addresses) {
      if (!(await isHealthy(address))) continue;
      const answer = await fetch(address + request.url);
      return void response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
    }
    response.writeHead(502).end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

test("the commands of the guide run one file in two regions, and a name in front survives the loss of one", async () => {
  const [us, eu] = [await freePort(), await freePort()];
  const regions = `us=http://127.0.0.1:${us},eu=http://127.0.0.1:${eu}`;
  const start = (region: string, port: number) =>
    startTestServer({
      ...{ PORT: String(port), PIERHEAD_REGION: region, PIERHEAD_REGIONS: regions },
      PIERHEAD_ALLOW_LOCAL_SOURCES: "1",
    });
  const first = await start("us", us);
  await using stack = new AsyncDisposableStack();
  let isUp = true;
  stack.defer(async () => {
    if (isUp) await first[Symbol.asyncDispose]();
  });
  await using second = await start("eu", eu);
  await using repository = await createAgentRepository(nodeAgent("one"));
  const [declared = ""] = await blocksOf(page, "yaml");
  await using at = await createDirectory({
    ...{ "us.key": first.apiKey, "eu.key": second.apiKey, "us.txt": "us", "eu.txt": "eu" },
    "pierhead.yaml": declared.replace("https://github.com/acme/support", repository.url),
  });
  const env = { PIERHEAD_CONFIG_DIR: at.directory };
  const answers = new Map<string, string>();
  for (const command of await commandsOf(page)) {
    const addressed = command.replace(/https:\/\/pierhead-(us|eu)\.example\.com/, (_, region) =>
      region === "us" ? first.url : second.url,
    );
    const { code, stdout, stderr } = await runCommand(addressed, { cwd: at.directory, env });
    assert.equal(code, 0, `${command}\n${stdout}${stderr}`);
    answers.set(command, stdout);
  }
  assert.match(answers.get("pierhead context list") ?? "", /us[\s\S]*eu|eu[\s\S]*us/);

  const addresses: string[] = [];
  for (const [region, server] of [
    ["us", first],
    ["eu", second],
  ] as const) {
    assert.deepEqual((await server.client.getInfo()).regions, [{ name: region, url: server.url }]);
    const [deployment] = (await server.client.listDeployments({})).resources;
    assert.equal(deployment?.name, "support");
    addresses.push(deployment?.url as string);
    const given = (await (await fetch(`${deployment?.url}/env`)).json()) as Record<string, string>;
    assert.equal(given["REGION"], region);
    const listeners = (await server.client.listListeners({})).resources;
    assert.ok(listeners.some(({ compute_id: name }) => name === "cluster-1"));
  }

  await using front = await startFront(addresses);
  const regionOf = async () => ((await (await fetch(`${front.url}/env`)).json()) as Record<string, string>)["REGION"];
  assert.equal(await regionOf(), "us");
  isUp = false;
  await first[Symbol.asyncDispose]();
  assert.equal(await regionOf(), "eu");
});
