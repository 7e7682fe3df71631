import assert from "node:assert/strict";
import { after, test } from "node:test";
import { stormReplicas } from "../storm/replicas.ts";
import { startObjectServer } from "./object-server.ts";

const objects = await startObjectServer();
after(() => objects[Symbol.asyncDispose]());

test("two control planes with a bucket lose nothing and do nothing twice when they are killed in turn under builds and deploys", async (context) => {
  const { environment, directory } = objects;
  const { passed, failed } = await stormReplicas({
    ...{ replicas: 2, deployments: 32, agents: 0, freezeMs: 1_000, pauseMs: 1_000, skewMinutes: 0, jumpMinutes: 0 },
    uploads: { environment, directory, agents: 4, images: 12 },
  });
  if (passed === 0 && failed === 0) return context.skip("PostgreSQL is not installed");
  assert.equal(failed, 0);
});
