import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { startAnswering } from "../client/answering.ts";
import { createDirectory, runCli } from "./run-cli.ts";

test("uses the default branch for another repository and the saved branch for the same one", async () => {
  await using repository = await createDirectory({ "langgraph.json": "{}" });
  const git = (...args: string[]) =>
    execFileSync("git", [
      "-C",
      repository.directory,
      "-c",
      "user.name=t",
      "-c",
      "user.email=t@example.invalid",
      ...args,
    ]);
  git("init", "--quiet", "--initial-branch=trunk");
  git("add", ".");
  git("commit", "--quiet", "-m", "x");
  const url = `file://${repository.directory}`;
  const deployment = {
    ...{ id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11", name: "bot", source: "github", secrets: [] },
    ...{ latest_revision_id: "r", active_revision_id: null, source_config: { repo_url: "file:///moved/away" } },
    source_revision_config: { repo_ref: "release", langgraph_config_path: "apps/bot/langgraph.json" },
  };
  await using server = await startAnswering(({ url: asked, method }) => {
    if (method === "PATCH") return { status: 200, body: deployment };
    if (asked.includes("/revisions/")) return { status: 200, body: { id: "r", status: "QUEUED" } };
    return { status: 200, body: { resources: [deployment], offset: 1 } };
  });
  const sent = async () => {
    const { code, stderr } = await runCli(["deploy", url, "--name", "bot", "--no-wait", "--url", server.url], {
      env: { PATH: process.env["PATH"] },
    });
    assert.equal(code, 8, stderr);
    const { body = "" } = server.asked.findLast(({ method }) => method === "PATCH") ?? {};
    return (JSON.parse(body) as typeof deployment).source_revision_config;
  };
  assert.deepEqual(await sent(), { repo_ref: "trunk", langgraph_config_path: "langgraph.json" });
  deployment.source_config.repo_url = url;
  assert.deepEqual(await sent(), deployment.source_revision_config);
});
