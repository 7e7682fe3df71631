import assert from "node:assert/strict";
import { registerHooks } from "node:module";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { eventually } from "../support/eventually.ts";
import { startCollector } from "../support/trace-collector.ts";

/** OpenTelemetry modules that this process has loaded. */
const loaded = new Set<string>();
registerHooks({
  load(url, context, next) {
    if (url.includes("@opentelemetry")) loaded.add(url);
    return next(url, context);
  },
});

/** The metrics library also loads the interfaces, because it looks for a trace to attach to a sample. */
const isMore = (url: string) => !url.includes("@opentelemetry/api/");

test("loads OpenTelemetry and traces revisions only with a collector", async () => {
  const { startTestServer } = await import("../support/server.ts");
  await using collector = await startCollector();
  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
  const create = async (name: string) => {
    const { client } = pierhead;
    const made = await client.createDeployment({
      body: {
        ...{ name, source: "internal_template" },
        source_config: { template_id: "node-server", deployment_type: "dev" },
        source_revision_config: {},
      },
    });
    const revisionId = made.latest_revision_id as string;
    const { status } = await client.waitForRevision({ deployment_id: made.id, revision_id: revisionId });
    assert.equal(status, "DEPLOYED");
    const { rows } = await pierhead.server.db.query<{ traceparent: string | null }>(sql`
      select traceparent from revisions where id = ${revisionId}`);
    return rows[0]?.traceparent;
  };
  assert.equal(await create("untraced"), null);
  assert.deepEqual([...loaded].filter(isMore), []);

  await pierhead.restart({ PIERHEAD_TRACES_URL: collector.url });
  assert.match((await create("traced")) ?? "none", /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  assert.ok([...loaded].some((url) => url.includes("@opentelemetry/sdk-trace")));
  await eventually(
    () => collector.spans.map(({ name }) => name),
    (names) => names.includes("listener.rollout"),
  );
});
