import assert from "node:assert/strict";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startTestServer } from "../support/server.ts";

/** Deploys a repository while only these programs are on the PATH of the server. @returns its revision, which has ended */
async function deployWith(programs: string[]) {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-path-"));
  for (const program of programs) await symlink(`/usr/bin/${program}`, path.join(directory, program));
  await using repository = await createAgentRepository();
  await using server = await startTestServer({ PIERHEAD_COMPUTE: "none", PIERHEAD_ALLOW_LOCAL_SOURCES: "1" });
  const before = process.env["PATH"];
  process.env["PATH"] = directory;
  try {
    const { id: deployment_id, latest_revision_id } = await server.client.createDeployment({
      body: {
        ...{ name: "without-git", source: "github", secrets: [] },
        source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
        source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      },
    });
    const ids = { deployment_id, revision_id: latest_revision_id as string };
    return await server.client.waitForRevision(ids, { timeoutMs: 30_000 });
  } finally {
    process.env["PATH"] = before;
    await rm(directory, { recursive: true });
  }
}

for (const [what, programs] of [
  ["git", ["env"]],
  ["env", []],
] as const) {
  test(`a server without ${what} fails a deploy from a repository at once, with the cause and what to install`, async () => {
    const { status, status_message, failure } = await deployWith([...programs]);
    assert.equal(status, "CREATE_FAILED");
    assert.match(
      status_message ?? "",
      /^git cannot start where Pierhead runs \(.*\b(git|env)\b.*\)\. Install git 2\.30 or newer/,
    );
    assert.equal(failure?.code, "builder_failed");
  });
}
