import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startWithTwoWorkspaces, type Workspace } from "./two-workspaces.ts";

const timeoutMs = 120_000;

/** Writes this many lines when it starts, and serves. Later lines make room for the notice about dropped ones. */
const writing = (count: number) => {
  const { "server.js": server, ...rest } = nodeAgent(randomUUID());
  return {
    ...rest,
    "server.js": `for (let n = 0; n < ${count}; n += 1) console.log("flood " + n);\nsetInterval(() => console.log("tick"), 500);\n${server}`,
  };
};

test("a flood of log lines must not fill the database, and must not drop lines of another workspace", async () => {
  await using repository = await createAgentRepository();
  await using world = await startWithTwoWorkspaces({ PIERHEAD_COMPUTE: "process", PIERHEAD_LOG_LINES_PER_S: "100" });
  const { pierhead, attacker, victim } = world;
  const deploy = async ({ api }: Workspace, lines: number) => {
    const commit = await repository.commit(writing(lines));
    const { id, latest_revision_id } = await api.createDeployment({
      body: {
        ...{ name: randomUUID(), source: "github" as const },
        source_config: { repo_url: repository.url, build_on_push: false, deployment_type: "dev" },
        source_revision_config: { repo_ref: commit, langgraph_config_path: "pierhead.json" },
      },
    });
    await api.waitForRevision({ deployment_id: id, revision_id: latest_revision_id as string }, { timeoutMs });
    return id;
  };
  const stored = async (id: string) => {
    const { rows } = await pierhead.server.db.query<{ message: string }>(sql`
      select message from log_entries
       where deployment_id = ${id} and kind = 'deploy' and message ~ 'flood|dropped' order by id`);
    return rows.map(({ message }) => message);
  };
  const beganAt = performance.now();
  const noisy = await deploy(attacker, 5_000);
  const quiet = await deploy(victim, 300);
  const readDropped = async () => {
    const notice = (await stored(noisy)).map((message) =>
      /^(\d+) lines dropped: the agents of this workspace/.exec(message),
    );
    return notice.reduce((sum, found) => sum + Number(found?.[1] ?? 0), 0);
  };
  await eventually(
    () => stored(quiet),
    (lines) => lines.length === 300,
    { timeoutMs, what: "all lines of the victim" },
  );
  const readKept = async () => (await stored(noisy)).filter((message) => message.startsWith("flood")).length;
  await eventually(
    async () => (await readKept()) + (await readDropped()),
    (count) => count >= 5_000,
    { timeoutMs, what: "all lines of the flood, stored or reported as dropped" },
  );
  const kept = await readKept();
  const elapsedS = (performance.now() - beganAt) / 1_000;
  assert.ok(kept <= 500 + 100 * elapsedS, `${kept} lines of the flood were stored in ${elapsedS} s`);
});
