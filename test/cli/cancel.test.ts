import assert from "node:assert/strict";
import { test } from "node:test";
import { startAnswering } from "../client/answering.ts";
import { runCli } from "./run-cli.ts";

test("cancels the other revisions when one ends during the cancellation", async () => {
  const deployment = { id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11", name: "support", secrets: [] };
  const revisions = ["c", "b", "a"].map((id) => ({ id: `${id}0000000`, status: id === "a" ? "BUILDING" : "QUEUED" }));
  await using server = await startAnswering(({ method, url }) => {
    if (method === "GET") {
      const resources = url.includes("/revisions") ? revisions : [deployment];
      return { status: 200, body: { resources, offset: resources.length } };
    }
    if (!url.includes("b0000000")) return { status: 200, body: {} };
    const detail = "Revision ID b0000000 is already DEPLOYED and cannot be interrupted.";
    return { status: 400, body: { detail }, headers: { "x-pierhead-error": "revisionSettled" } };
  });
  const { code, stdout, stderr } = await runCli(["cancel", "support", "--json", "--url", server.url]);
  assert.equal(code, 0, stderr);
  assert.deepEqual((JSON.parse(stdout) as { interrupted: string[] }).interrupted, ["c0000000", "a0000000"]);
  assert.equal((await runCli(["cancel", "support", "b0000", "--url", server.url])).code, 1);
});
