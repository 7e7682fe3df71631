import assert from "node:assert/strict";
import { test } from "node:test";
import { ServiceContainer } from "../../../src/compute/docker/services/service-container.ts";
import { soon } from "../compute-world.ts";
import { startFakeEngine } from "./fake-engine.ts";

/** A command in a wrong container would receive the password and the content of the database. */
test("a container whose image has the label of a service is not mistaken for that service", async (context) => {
  let names = ["/pierhead-00000000-11111111-1", "/epic_edison", "/pierhead-00000000-other-postgres"];
  const { host } = await startFakeEngine(context, (_, response) => {
    response.end(JSON.stringify(names.map((name) => ({ Names: [name] }))));
  });
  assert.equal(await ServiceContainer.find(host, "postgres", soon()), undefined);
  names = [...names, "/pierhead-00000000-postgres"];
  await using room = await ServiceContainer.find(host, "postgres", soon());
  assert.equal(room?.name, "pierhead-00000000-postgres");
});
