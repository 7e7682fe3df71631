import assert from "node:assert/strict";
import { test } from "node:test";
import type { Route } from "../../src/gateway/route.ts";
import {
  planClusterRoute,
  type ServerView,
  type ServingObjects,
  type SliceView,
} from "../../src/listener/clusters/route-table.ts";

const route = { slug: "agent-1", deployment_id: "d", workspace_id: "w" };

const serviceOf = (value: string | undefined): ServingObjects["service"] => ({
  metadata: value === undefined ? {} : { annotations: { "pierhead.dev/route": value } },
});

function serverOf({ replicas = 1, updated = 1, revision = "r1", isMarked = false } = {}): ServerView {
  return {
    metadata: {
      resourceVersion: "1",
      generation: 2,
      ...(isMarked && { annotations: { "pierhead.dev/asleep": "2026-01-01T00:00:00Z" } }),
    },
    spec: { replicas, template: { metadata: { annotations: { "pierhead.dev/revision-id": revision } } } },
    status: { observedGeneration: 2, replicas, updatedReplicas: updated },
  };
}

type Conditions = NonNullable<NonNullable<SliceView["endpoints"]>[number]["conditions"]>;

const pod = (name: string, conditions: Conditions = { ready: true, serving: true, terminating: false }) => ({
  addresses: [`10.0.0.${name}`],
  conditions,
  targetRef: { name },
});

const sliceOf = (...endpoints: ReturnType<typeof pod>[]): SliceView => ({
  metadata: { name: "s" },
  endpoints,
  ports: [
    { name: "metrics", port: 9 },
    { name: "http", port: 8_000 },
  ],
});

const plan = (changed: Partial<ServingObjects>, before: Route | null = null, nowMs = 0) =>
  planClusterRoute(
    { service: serviceOf(JSON.stringify(route)), server: serverOf(), slices: [], downSinceMs: null, ...changed },
    before,
    nowMs,
  );

test("adds the custom URL of a deployment to its route, with the creation time of its Service", () => {
  const custom = (custom_url: string) => {
    const { metadata } = serviceOf(JSON.stringify({ ...route, custom_url })) as NonNullable<ServingObjects["service"]>;
    const service = { metadata: { ...metadata, creationTimestamp: "2026-01-01T00:00:00Z" } };
    return plan({ service }).route?.custom;
  };
  const sinceMs = Date.UTC(2026);
  assert.deepEqual(custom("https://Support.example.com"), { host: "support.example.com", path: "", sinceMs });
  assert.deepEqual(custom("http://api.example.com:8080/v1/"), { host: "api.example.com", path: "/v1", sinceMs });
  assert.equal(plan({}).route?.custom, undefined);
});

test("routes to the ready pods of all slices, by name, on the agent's port", () => {
  const slices = [sliceOf(pod("2"), pod("3", { ready: false })), sliceOf(pod("1"))];
  assert.deepEqual(plan({ slices }).route, {
    ...{ slug: "agent-1", deploymentId: "d", workspaceId: "w", revisionId: "r1", state: "open", because: null },
    targets: [
      { replicaId: "1", host: "10.0.0.1", port: 8_000 },
      { replicaId: "2", host: "10.0.0.2", port: 8_000 },
    ],
  });
});

test("sends no new request to a pod that ends, unless no other pod answers", () => {
  const ending = pod("1", { ready: false, serving: true, terminating: true });
  const names = (slices: SliceView[]) => plan({ slices }).route?.targets.map(({ replicaId }) => replicaId);
  assert.deepEqual(names([sliceOf(ending, pod("2"))]), ["2"]);
  assert.deepEqual(names([sliceOf(ending)]), ["1"]);
});

test("admits the callers that the Service names, and has no route for a Service without that", () => {
  const service = serviceOf(JSON.stringify({ ...route, admission: { workspace_id: "w" } }));
  assert.deepEqual(plan({ service }).route?.admission, { workspaceId: "w" });
  for (const none of [null, serviceOf(undefined), serviceOf("{")]) assert.equal(plan({ service: none }).route, null);
});

test("sleeps only with the listener's mark, and holds requests until the first replica is ready", () => {
  const asleep = serverOf({ replicas: 0, isMarked: true });
  const ending = sliceOf(pod("1", { ready: false, serving: true, terminating: true }));
  assert.equal(plan({ server: asleep, slices: [ending] }).route?.state, "asleep");
  assert.equal(plan({ server: serverOf({ replicas: 0 }) }).route?.state, "closed");
  assert.deepEqual(
    [plan({ server: serverOf({ isMarked: true }) }, null, 10 * 60_000)].map((one) => [one.route?.state, one.untilMs]),
    [["held", null]],
  );
  assert.equal(plan({ server: serverOf({ isMarked: true }), slices: [sliceOf(pod("1"))] }).route?.state, "open");
});

test("holds requests for half a minute while no pod is ready, then refuses them", () => {
  const held = plan({ downSinceMs: 5_000 }, null, 6_000);
  assert.deepEqual([held.route?.state, held.untilMs], ["held", 35_000]);
  assert.equal(plan({ downSinceMs: 5_000 }, null, 35_000).route?.state, "closed");
});

test("names the revision that serves, and the earlier one while pods of two revisions serve", () => {
  const slices = [sliceOf(pod("1"))];
  const { route: before } = plan({ slices });
  const rolling = serverOf({ replicas: 2, updated: 1, revision: "r2" });
  assert.equal(plan({ slices, server: rolling }, before).route?.revisionId, "r1");
  assert.equal(plan({ slices, server: serverOf({ revision: "r2" }) }, before).route?.revisionId, "r2");
});
