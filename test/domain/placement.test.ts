import assert from "node:assert/strict";
import { test } from "node:test";
import type { SourceKind } from "../../src/contract/deployments/deployment.ts";
import { checkLabels } from "../../src/domain/listener-labels.ts";
import { chooseListener, type ListenerCandidate } from "../../src/domain/placement.ts";
import { refusal } from "./fixtures.ts";

const candidate = (id: string, more: Partial<ListenerCandidate> = {}): ListenerCandidate => ({
  id,
  computeId: `cluster-${id}`,
  labels: { region: "eu" },
  k8sNamespaces: ["agents"],
  buildsImages: true,
  isConnected: true,
  deployments: 0,
  ...more,
});

interface Wanted {
  selector?: Record<string, string>;
  namespace?: string;
  source?: SourceKind;
}

const choose = (
  candidates: ListenerCandidate[],
  { selector = { region: "eu" }, namespace, source = "external_docker" }: Wanted = {},
) =>
  chooseListener(
    source,
    { selector, ...(namespace !== undefined && { listener_config: { k8s_namespace: namespace } }) },
    candidates,
  );

test("prefers a connected listener, then the one with the fewest deployments, then the oldest", () => {
  const lost = candidate("lost", { isConnected: false });
  const full = candidate("full", { deployments: 3 });
  const [old, young] = [candidate("old", { deployments: 1 }), candidate("young", { deployments: 1 })];
  assert.equal(choose([lost, full, old, young]), "old");
  assert.equal(choose([lost, full]), "full");
  assert.equal(choose([lost]), "lost");
});

test("a listener needs every label of the selector, and an empty selector fits any listener", () => {
  const gpu = candidate("gpu", { labels: { region: "eu", gpu: "l4", zone: "a" } });
  assert.equal(choose([candidate("plain"), gpu], { selector: { region: "eu", gpu: "l4" } }), "gpu");
  assert.equal(choose([candidate("plain", { labels: {} }), gpu], { selector: {} }), "plain");
  assert.equal(
    refusal(() => choose([candidate("plain"), gpu], { selector: { region: "us" } })),
    "400 noListenerMatches: Source configuration error: no listener fits 'source_config.listener_selector' (region=us). " +
      "Listeners of the workspace have these labels: gpu=l4, region=eu, zone=a.",
  );
  assert.match(
    refusal(() => choose([candidate("plain")], { selector: { constructor: "x" } })),
    /^400 noListenerMatches/,
  );
});

test("says when the workspace has no listeners, or none with labels", () => {
  assert.match(
    refusal(() => choose([])),
    /The workspace has no listeners\.$/,
  );
  assert.match(
    refusal(() => choose([candidate("bare", { labels: {} })])),
    /Its listeners have no labels\.$/,
  );
});

test("skips listeners without the namespace, and refuses if none has it", () => {
  const candidates = [candidate("one"), candidate("two", { k8sNamespaces: ["a", "b"], deployments: 5 })];
  assert.equal(choose(candidates), "one");
  assert.equal(choose(candidates, { namespace: "b" }), "two");
  assert.equal(choose([...candidates, candidate("any", { k8sNamespaces: null })], { namespace: "c" }), "any");
  assert.match(
    refusal(() => choose(candidates, { namespace: "c" })),
    /^400 noListenerMatches: .*\(cluster-one, cluster-two\) have other namespaces: agents, a, b\.$/,
  );
  assert.match(
    refusal(() => choose(candidates.slice(1))),
    /^400 invalidField: .*k8s_namespace' is required: the listeners have a, b\.$/,
  );
});

test("skips listeners that build no images for a source to build", () => {
  const candidates = [candidate("images", { buildsImages: false }), candidate("builder", { deployments: 9 })];
  assert.equal(choose(candidates), "images");
  assert.equal(choose(candidates, { source: "github" }), "builder");
  assert.match(
    refusal(() => choose(candidates.slice(0, 1), { source: "internal_source" })),
    /^400 noListenerMatches: .*\(cluster-images\) build no images\.$/,
  );
});

test("labels have the syntax of Kubernetes", () => {
  const check = (labels: Record<string, string>) => refusal(() => checkLabels("labels", labels));
  const good = {
    region: "eu",
    "example.com/gpu": "L4_a.b-c",
    empty: "",
    [`${"a".repeat(253)}/${"b".repeat(63)}`]: "1",
  };
  assert.equal(check(good), "accepted");
  const badKeys = [
    "",
    "/a",
    "a/",
    "a/b/c",
    "-a",
    "a_",
    "a b",
    "A.b/c",
    "a..b/c",
    "b".repeat(64),
    `${"a".repeat(254)}/b`,
  ];
  for (const key of badKeys) assert.match(check({ [key]: "x" }), /not a valid Kubernetes label key/, key);
  for (const value of ["-a", "a-", "a b", "ä", "a".repeat(64), "a\n"]) {
    assert.match(check({ key: value }), /not a valid Kubernetes label value/, value);
  }
});
