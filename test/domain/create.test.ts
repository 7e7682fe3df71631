import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  CreateDeployment,
  SourceConfigInput,
  SourceKind,
  SourceRevisionConfigInput,
} from "../../src/contract/deployments/deployment.ts";
import { normalizeCreate } from "../../src/domain/create.ts";
import { type FieldRule, revisionConfigRules, sourceConfigRules } from "../../src/domain/source-rules.ts";
import { context, minimal, refusal, sources } from "./fixtures.ts";

const create = (body: CreateDeployment, changes = {}) => normalizeCreate(body, { ...context, ...changes });

test("accepts the minimal request of every source", () => {
  for (const source of sources)
    assert.equal(
      refusal(() => create(minimal[source])),
      "accepted",
      source,
    );
});

/** A valid value of every field, to be sent for sources that do not have the field. */
const values = {
  deployment_type: "dev",
  integration_id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11",
  repo_url: "https://example.org/a/b.git",
  build_on_push: true,
  custom_url: "https://agent.example.org",
  resource_spec: {},
  listener_id: "0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22",
  listener_config: { k8s_namespace: "agents" },
  install_command: "npm ci",
  build_command: "npm run build",
  template_id: "hello",
  engine: "postgres",
  repo_ref: "main",
  image_uri: "example/agent:1",
  source_tarball_path: "uploads/d/1.tar.gz",
  langgraph_config_path: "langgraph.json",
} as const;

const listeners = [{ id: values.listener_id, k8sNamespaces: ["agents"], buildsImages: true }];

const rows = [
  ...Object.entries(sourceConfigRules).map(([field, row]) => ({ part: "source_config" as const, field, row })),
  ...Object.entries(revisionConfigRules).map(([field, row]) => ({
    part: "source_revision_config" as const,
    field,
    row,
  })),
].flatMap(({ part, field, row }) => sources.map((source) => ({ part, field, source, rule: row[source] as FieldRule })));

/** The minimal request of a source with one field set; namespaces and resource specs also need a listener. */
function withField({ part, field, source }: (typeof rows)[number], value: unknown): CreateDeployment {
  const base = minimal[source];
  const isOfCluster = ["listener_config", "resource_spec"].includes(field) && source !== "internal_docker";
  const beside = isOfCluster ? { listener_id: values.listener_id } : {};
  return { ...base, [part]: { ...base[part], ...beside, [field]: value } };
}

test("refuses a field that does not apply to the source, by name, and accepts any other valid value", () => {
  for (const row of rows) {
    const outcome = refusal(() => create(withField(row, values[row.field as keyof typeof values]), { listeners }));
    const isRefused = row.rule === "none" || row.rule === "off";
    const start = row.part === "source_config" ? "Source configuration error" : "Source revision configuration error";
    const text = `400 fieldNotApplicable: ${start}: '${row.part}.${row.field}' is not applicable for source '${row.source}'.`;
    assert.equal(outcome, isRefused ? text : "accepted", JSON.stringify(row));
  }
});

test("reports a missing required field by name, and accepts null for any other", () => {
  for (const row of rows) {
    const outcome = refusal(() => create(withField(row, null), { listeners }));
    const isRequired =
      row.rule === "required" || (row.source === "internal_source" && row.field === "langgraph_config_path");
    const start = row.part === "source_config" ? "Source configuration error" : "Source revision configuration error";
    const text = `400 fieldRequired: ${start}: '${row.part}.${row.field}' is required for source '${row.source}'.`;
    assert.equal(outcome, isRequired ? text : "accepted", JSON.stringify(row));
  }
});

test("sources for a cluster need a listener that builds images, and sizes by resource spec", () => {
  const listener_id = values.listener_id;
  const made = (changed: Partial<SourceConfigInput>, buildsImages = true) => {
    const body = { ...minimal.github, source_config: { ...minimal.github.source_config, ...changed } };
    return create(body, { listeners: [{ id: listener_id, k8sNamespaces: ["agents"], buildsImages }] }).sourceConfig;
  };
  const { deployment_type, listener_config } = made({ listener_id });
  assert.deepEqual(
    { deployment_type, listener_config },
    { deployment_type: null, listener_config: { k8s_namespace: "agents" } },
  );
  assert.match(
    refusal(() => made({ listener_id }, false)),
    /^400 listenerBuildsNothing: Listener .* builds no images/,
  );
  assert.match(
    refusal(() => made({ listener_id, deployment_type: "dev" })),
    /^400 fieldNotApplicable: .*deployment_type/,
  );
  assert.match(
    refusal(() => made({ resource_spec: { cpu: 1 } })),
    /^400 fieldNotApplicable: .*resource_spec/,
  );
});

test("creates a revision unless the image or archive is missing", () => {
  const bare = (source: SourceKind) => create({ ...minimal[source], source_revision_config: {} }).createsRevision;
  assert.equal(bare("internal_docker"), false);
  assert.equal(bare("internal_source"), false);
  for (const source of sources) assert.equal(create(minimal[source]).createsRevision, true, source);
});

test("accepts an archive only with a config path and from a finished upload of this deployment", () => {
  const body = (config: SourceRevisionConfigInput) => ({ ...minimal.internal_source, source_revision_config: config });
  assert.match(
    refusal(() => create(body({ source_tarball_path: "uploads/d/1.tar.gz" }))),
    /^400 fieldRequired/,
  );
  const strange = body({ source_tarball_path: "uploads/other/1.tar.gz", langgraph_config_path: "langgraph.json" });
  assert.equal(
    refusal(() => create(strange)),
    "400 invalidTarballPath: Invalid source_tarball_path.",
  );
});

test("treats null like absent everywhere, and accepts build_on_push false for any source", () => {
  for (const source of sources) {
    const nulls = Object.fromEntries(Object.keys(values).map((field) => [field, null]));
    const body = {
      ...minimal[source],
      source_config: { ...nulls, build_on_push: false, ...minimal[source].source_config },
      source_revision_config: { ...nulls, ...minimal[source].source_revision_config },
      secrets: null,
      secret_references: null,
      agent: null,
    } as CreateDeployment;
    assert.deepEqual(create(body), create(minimal[source]), source);
  }
});

test("fills in defaults: type prod, none for external images, no push builds, everything else null", () => {
  assert.deepEqual(create(minimal.internal_template).sourceConfig, {
    integration_id: null,
    repo_url: null,
    deployment_type: "prod",
    build_on_push: false,
    custom_url: null,
    resource_spec: null,
    listener_id: null,
    listener_config: null,
    install_command: null,
    build_command: null,
    template_id: "hello",
    engine: null,
    repo_branch: null,
  });
  assert.equal(create(minimal.external_docker).sourceConfig.deployment_type, null);
  const { secrets, shareable, routeThroughGateway, secretReferences } = create(minimal.github);
  assert.deepEqual([secrets, shareable, routeThroughGateway, secretReferences], [{}, false, false, null]);
});

test("treats both names of the config path as one setting and refuses different values", () => {
  const config = (sent: SourceRevisionConfigInput) =>
    create({ ...minimal.github, source_revision_config: { repo_ref: "main", ...sent } }).sourceRevisionConfig;
  for (const sent of [
    { framework_config_path: "a.json" },
    { langgraph_config_path: "a.json" },
    { langgraph_config_path: "a.json", framework_config_path: "a.json" },
  ]) {
    const { langgraph_config_path, framework_config_path } = config(sent);
    assert.deepEqual([langgraph_config_path, framework_config_path], ["a.json", "a.json"]);
  }
  assert.match(
    refusal(() => config({ langgraph_config_path: "a.json", framework_config_path: "b.json" })),
    /^422 invalidRequest: body\.source_revision_config\.framework_config_path: Value error, /,
  );
});

test("refuses a source that the mode does not offer, and lists the available ones", () => {
  const outcome = (source: SourceKind, mode: string) => refusal(() => create(minimal[source], { mode }));
  assert.equal(
    outcome("external_docker", "cloud"),
    "400 sourceNotInMode: Source 'external_docker' is not available in cloud mode; available: github, internal_docker, internal_source, internal_template.",
  );
  assert.equal(
    outcome("github", "self_hosted"),
    "400 sourceNotInMode: Source 'github' is not available in self_hosted mode; available: external_docker.",
  );
  assert.equal(outcome("external_docker", "self_hosted"), "accepted");
});

test("refuses push builds of a tag with the text that clients expect", () => {
  const body = {
    ...minimal.github,
    source_revision_config: { repo_ref: "refs/tags/v1", langgraph_config_path: "langgraph.json" },
  };
  assert.equal(
    refusal(() => create(body)),
    "400 buildOnPushOfTag: Source configuration error: build_on_push cannot be enabled when repo_ref is a tag.",
  );
  assert.equal(
    refusal(() => create({ ...body, source_config: { ...body.source_config, build_on_push: false } })),
    "accepted",
  );
});

test("stores refs/heads/x as x and tracks it", () => {
  const made = create({
    ...minimal.github,
    source_revision_config: { repo_ref: "refs/heads/dev", langgraph_config_path: "a.json" },
  });
  assert.deepEqual([made.sourceRevisionConfig.repo_ref, made.trackedRef], ["dev", "dev"]);
});

test("places an external image on the built-in data plane or on a listener and one of its namespaces", () => {
  const [one, two] = ["0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22", "1f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22"];
  const listeners = [
    { id: one, k8sNamespaces: ["agents"] },
    { id: two, k8sNamespaces: ["a", "b"] },
  ];
  const place = (source_config: SourceConfigInput, hasBuiltinDataPlane = true) =>
    create({ ...minimal.external_docker, source_config }, { listeners, hasBuiltinDataPlane }).sourceConfig
      .listener_config;
  assert.equal(place({}), null);
  assert.equal(
    refusal(() => place({}, false)),
    `400 listenerRequired: Source configuration error: 'source_config.listener_id' is required for workspace with available listener IDs: ['${one}', '${two}']`,
  );
  assert.deepEqual(place({ listener_id: one }), { k8s_namespace: "agents" });
  assert.deepEqual(place({ listener_id: two, listener_config: { k8s_namespace: "b" } }), { k8s_namespace: "b" });
  assert.match(
    refusal(() => place({ listener_id: two })),
    /k8s_namespace' is required: the listener has a, b\./,
  );
  assert.match(
    refusal(() => place({ listener_id: one, listener_config: { k8s_namespace: "x" } })),
    /must be one of agents\./,
  );
  assert.match(
    refusal(() => place({ listener_id: "2f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22" })),
    /is not a listener of this workspace/,
  );
});

test("agent mode needs no name; otherwise a missing name is a 422 with its location", () => {
  const { name: _name, ...nameless } = minimal.internal_docker;
  const agent = { agent_id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11", environment: "staging" } as const;
  assert.equal(create({ ...nameless, agent }).name, "agent-6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11-staging");
  assert.equal(
    refusal(() => create(nameless)),
    "422 invalidRequest: body.name: Field required",
  );
});

test("refuses an unknown template and lists the known ones", () => {
  const body = { ...minimal.internal_template, source_config: { template_id: "nope" } };
  assert.match(
    refusal(() => create(body)),
    /^400 templateUnknown: .*'nope' is not in the catalogue; available: hello\.$/,
  );
});

test("refuses two origins for one variable, and references for other sources than external images", () => {
  const reference = { name: "A", secret_name: "keys", secret_key: "a" };
  const both = { ...minimal.external_docker, secrets: [{ name: "A", value: "1" }], secret_references: [reference] };
  assert.match(
    refusal(() => create(both)),
    /^400 invalidSecret: Secrets error: both secrets and secret_references name A\.$/,
  );
  assert.match(
    refusal(() => create({ ...minimal.github, secret_references: [reference] })),
    /^400 fieldNotApplicable/,
  );
  assert.equal(
    refusal(() => create({ ...minimal.github, secret_references: [] })),
    "accepted",
  );
});

test("refuses an invalid value, naming its field", () => {
  const bad: [SourceKind, "source_config" | "source_revision_config", string, string][] = [
    ["github", "source_config", "repo_url", "ext::sh -c id"],
    ["github", "source_config", "build_command", "a | b"],
    ["github", "source_revision_config", "repo_ref", "--upload-pack=x"],
    ["github", "source_revision_config", "langgraph_config_path", "../langgraph.json"],
    ["internal_docker", "source_revision_config", "image_uri", "https://registry.example/a"],
    ["external_docker", "source_config", "custom_url", "agents"],
  ];
  for (const [source, part, field, value] of bad) {
    const body = { ...minimal[source], [part]: { ...minimal[source][part], [field]: value } } as CreateDeployment;
    assert.match(
      refusal(() => create(body)),
      new RegExp(`^400 invalidField: .*'${part}\\.${field}' must`),
      field,
    );
  }
});
