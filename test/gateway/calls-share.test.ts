import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { eventually } from "../support/eventually.ts";
import { route, startGateway, startTarget } from "./harness.ts";

test("a workspace holds at most its share of requests, while others are served", async () => {
  const held: ServerResponse[] = [];
  await using agent = await startTarget((request, response) => {
    if (request.url === "/slow") held.push(response);
    else response.end("ok");
  });
  await using site = await startGateway({ limits: { callsMax: 8 } });
  const { gateway, url } = site;
  const deployments = [
    { slug: "a1", deploymentId: "a1", workspaceId: "a" },
    { slug: "a2", deploymentId: "a2", workspaceId: "a" },
    { slug: "b1", deploymentId: "b1", workspaceId: "b" },
  ];
  for (const parts of deployments) gateway.setRoute(route([agent.target(parts.slug)], parts));
  gateway.setRoute(route([], { slug: "asleep", deploymentId: "a3", workspaceId: "a", state: "held" }));
  const slow = ["a1", "a1", "a2"].map((slug) => fetch(`${url}/d/${slug}/slow`));
  const waiting = fetch(`${url}/d/asleep/`);
  await eventually(
    () => held.length + gateway.health().waiting,
    (count) => count === 4,
  );
  const refused = await fetch(`${url}/d/a2/quick`);
  assert.equal(refused.status, 429);
  assert.equal(refused.headers.get("retry-after"), "5");
  assert.match(await refused.text(), /holds its share of the gateway's requests, which is 4 at the moment/);
  assert.equal((await fetch(`${url}/d/b1/quick`)).status, 200);
  for (const response of held) response.end("late");
  for (const answer of await Promise.all(slow)) assert.equal(await answer.text(), "late");
  assert.equal((await fetch(`${url}/d/a2/quick`)).status, 200, "an answered request no longer counts");
  gateway.removeRoute("asleep");
  assert.equal((await waiting).status, 404);
});
