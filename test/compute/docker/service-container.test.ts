import assert from "node:assert/strict";
import { test } from "node:test";
import { ServiceContainer } from "../../../src/compute/docker/services/service-container.ts";
import { soon } from "../compute-world.ts";
import { answeringEngine } from "./answering-engine.ts";

/** What would be asked in there gets the password of the database, and its content. */
test("a container whose image has the label of a service is not taken for that service", async (context) => {
  let names = ["/pierhead-00000000-11111111-1", "/epic_edison", "/pierhead-00000000-other-postgres"];
  const { host } = await answeringEngine(context, (_, response) => {
    response.end(JSON.stringify(names.map((name) => ({ Names: [name] }))));
  });
  assert.equal(await ServiceContainer.find(host, "postgres", soon()), undefined);
  names = [...names, "/pierhead-00000000-postgres"];
  await using room = await ServiceContainer.find(host, "postgres", soon());
  assert.equal(room?.name, "pierhead-00000000-postgres");
});
