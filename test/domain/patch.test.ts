import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { PatchDeployment, SourceKind } from "../../src/contract/deployments/deployment.ts";
import { applyNewRevision, applyPatch, applyPush } from "../../src/domain/patch.ts";
import { redeploySettings } from "../../src/domain/redeploy.ts";
import { context, current, refusal, sources, uploadedPath } from "./fixtures.ts";

const reference = { name: "A", secret_name: "keys", secret_key: "a" };

/** Contract 4.4, left column: each of these creates a revision even with the current value. */
const making: [SourceKind, PatchDeployment][] = [
  ["github", { source_revision_config: { repo_ref: "main" } }],
  ["github", { source_revision_config: { langgraph_config_path: "langgraph.json" } }],
  ["github", { source_revision_config: { framework_config_path: "langgraph.json" } }],
  ["github", { source_config: { install_command: "npm ci" } }],
  ["github", { source_config: { build_command: "npm run build" } }],
  ["github", { source_config: { engine: "postgres" } }],
  ["github", { secrets: [{ name: "A", value: "" }] }],
  ["internal_docker", { source_revision_config: { image_uri: "registry.example/r/bot:1" } }],
  ["internal_source", { source_revision_config: { source_tarball_path: uploadedPath } }],
  ["external_docker", { source_config: { resource_spec: {} } }],
  ["external_docker", { secret_references: [reference] }],
  [
    "external_docker",
    { source_revision_config: { image_uri: "registry.example/bot:2" }, secrets: [], tracked_packages: ["a:1"] },
  ],
];

/** The right column. */
const quiet: [SourceKind, PatchDeployment][] = [
  ["github", {}],
  ["github", { source_config: {}, source_revision_config: {}, secrets: [] }],
  ["github", { source_config: null, source_revision_config: null, secrets: null, secret_references: null }],
  ["github", { source_revision_config: { repo_ref: null, image_uri: null } }],
  ["github", { display_name: "Bot", shareable: true, route_through_gateway: true }],
  ["github", { source_config: { build_on_push: false } }],
  ["github", { source_config: { repo_url: "https://github.com/acme/other" } }],
  ["github", { tracked_repo_ref: "dev" }],
  ["github", { tracked_packages: ["a:1"] }],
  ["external_docker", { source_config: { custom_url: "https://agent.example.org" } }],
  ["external_docker", { source_config: { custom_url: "" } }],
  ["external_docker", { secret_references: [] }],
  ["external_docker", { source_config: { install_command: "npm ci" } }],
  ["internal_docker", { revision_source: "internal_docker" }],
];

test("creates a revision for each field that requests one, even with an equal value", () => {
  for (const [source, patch] of making) {
    const { revision } = applyPatch(current(source), patch, context);
    assert.notEqual(revision, null, `${source} ${JSON.stringify(patch)}`);
    assert.equal(revision?.source, source);
  }
});

test("creates no revision for the other fields", () => {
  for (const [source, patch] of quiet) {
    assert.equal(applyPatch(current(source), patch, context).revision, null, `${source} ${JSON.stringify(patch)}`);
  }
});

test("drops commands for an external image", () => {
  const { sourceConfig } = applyPatch(
    current("external_docker"),
    { source_config: { build_command: "echo $(id)" } },
    context,
  );
  assert.equal(sourceConfig.build_command, null);
});

test("clearing references creates a revision only if there were some", () => {
  const cleared = applyPatch(
    current("external_docker", { secretReferences: [reference] }),
    { secret_references: [] },
    context,
  );
  assert.equal(cleared.secretReferences, null);
  assert.notEqual(cleared.revision, null);
});

test("writing back what was read is accepted and changes no setting", () => {
  for (const source of sources) {
    const deployment = current(source);
    const { repo_branch: _branch, ...shown } = { ...deployment.sourceConfig, custom_url: deployment.url };
    const { name, sourceRevisionConfig } = deployment;
    const body = {
      name,
      source,
      source_config: { ...shown, deployment_type: shown.deployment_type ?? ("prod" as const) },
      source_revision_config: sourceRevisionConfig,
    };
    const changed = applyPatch(deployment, body, context);
    assert.deepEqual(changed.sourceConfig, deployment.sourceConfig, source);
    assert.deepEqual(changed.sourceRevisionConfig, deployment.sourceRevisionConfig, source);
  }
});

test("an address that has the host of Pierhead since before that was refused does not block other changes", () => {
  const { sourceConfig } = current("external_docker");
  const custom_url = `https://${context.ownHost}/bot`;
  const earlier = current("external_docker", { sourceConfig: { ...sourceConfig, custom_url }, url: custom_url });
  const changed = applyPatch(earlier, { source_config: { custom_url, resource_spec: { cpu: 2 } } }, context);
  assert.equal(changed.sourceConfig.custom_url, custom_url);
  applyNewRevision(earlier, {}, context);
  const other = { source_config: { custom_url: `${custom_url}/other` } };
  assert.match(
    refusal(() => applyPatch(earlier, other, context)),
    /host of Pierhead/,
  );
});

test("only an empty custom_url removes that of an external image, and other sources refuse it", () => {
  const own = "https://agent.example.org";
  const { sourceConfig } = current("external_docker");
  const named = current("external_docker", { sourceConfig: { ...sourceConfig, custom_url: own }, url: own });
  const addressAfter = (custom_url: string | null) =>
    applyPatch(named, { source_config: { custom_url } }, context).sourceConfig.custom_url;
  assert.deepEqual([addressAfter(""), addressAfter(null), addressAfter(own)], [null, own, own]);
  assert.equal(applyNewRevision(named, { source_config: { custom_url: "" } }, context).sourceConfig.custom_url, null);
  assert.throws(() => applyPatch(current("github"), { source_config: { custom_url: "" } }, context), /not applicable/);
});

test("refuses changes of fields that are fixed at creation", () => {
  const other = "2f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22";
  const patches: [string, SourceKind, PatchDeployment][] = [
    ["name", "github", { name: "other" }],
    ["source", "github", { source: "internal_docker" }],
    ["source_config.integration_id", "github", { source_config: { integration_id: other } }],
    ["source_config.deployment_type", "github", { source_config: { deployment_type: "dev" } }],
    ["source_config.deployment_type", "external_docker", { source_config: { deployment_type: "dev" } }],
    ["source_config.listener_id", "external_docker", { source_config: { listener_id: other } }],
    [
      "source_config.listener_config.k8s_namespace",
      "external_docker",
      { source_config: { listener_config: { k8s_namespace: "x" } } },
    ],
    ["source_config.template_id", "internal_template", { source_config: { template_id: "other" } }],
  ];
  for (const [field, source, patch] of patches) {
    const text = refusal(() => applyPatch(current(source), patch, context));
    assert.match(text, new RegExp(`^400 fieldImmutable: .*'${field}' cannot be changed after creation\\.$`), field);
    assert.equal(
      refusal(() => applyNewRevision(current(source), patch, context)),
      text,
    );
  }
});

test("secrets: an empty list changes nothing, a non-empty one replaces all", () => {
  assert.equal(applyPatch(current("github"), { secrets: [] }, context).secrets, null);
  assert.deepEqual(applyPatch(current("github"), { secrets: [{ name: "A", value: "1" }] }, context).secrets, {
    A: "1",
  });
});

test("refuses a reference for a variable that a stored secret sets", () => {
  const stored = current("external_docker", { secretNames: ["A"] });
  assert.match(
    refusal(() => applyPatch(stored, { secret_references: [reference] }, context)),
    /^400 invalidSecret/,
  );
  const replaced = { secret_references: [reference], secrets: [{ name: "B", value: "" }] };
  assert.equal(
    refusal(() => applyPatch(stored, replaced, context)),
    "accepted",
  );
});

test("checks the merged result: refuses push builds with a tag, whichever of the two changes", () => {
  const tag = { source_revision_config: { repo_ref: "refs/tags/v1" } };
  assert.match(
    refusal(() => applyPatch(current("github"), tag, context)),
    /^400 buildOnPushOfTag/,
  );
  const off = applyPatch(current("github"), { ...tag, source_config: { build_on_push: false } }, context);
  assert.equal(off.trackedRef, "refs/tags/v1");
  const pinned = current("github", {
    sourceConfig: off.sourceConfig,
    sourceRevisionConfig: off.sourceRevisionConfig,
    trackedRef: off.trackedRef,
  });
  assert.match(
    refusal(() => applyPatch(pinned, { source_config: { build_on_push: true } }, context)),
    /^400 buildOnPushOfTag/,
  );
  assert.equal(
    refusal(() => applyPatch(pinned, { tracked_repo_ref: "main", source_config: { build_on_push: true } }, context)),
    "accepted",
  );
});

test("a deployed ref becomes the tracked one; tracked_repo_ref changes only the tracked one", () => {
  assert.equal(
    applyPatch(current("github"), { source_revision_config: { repo_ref: "dev" } }, context).trackedRef,
    "dev",
  );
  const moved = applyPatch(current("github"), { tracked_repo_ref: "refs/heads/dev" }, context);
  assert.deepEqual([moved.trackedRef, moved.revision, moved.sourceRevisionConfig.repo_ref], ["dev", null, "main"]);
  assert.match(
    refusal(() => applyPatch(current("internal_docker"), { tracked_repo_ref: "dev" }, context)),
    /^400 fieldNotApplicable/,
  );
});

test("revision_source: accepts an image or archive on a deployment of another source", () => {
  const github = current("github");
  const image = { source_revision_config: { image_uri: "registry.example/r/bot:2" } };
  assert.match(
    refusal(() => applyPatch(github, image, context)),
    /^400 revisionSourceUnusable: .*needs revision_source 'internal_docker'/,
  );
  const { revision, sourceRevisionConfig } = applyPatch(
    github,
    { ...image, revision_source: "internal_docker" },
    context,
  );
  assert.equal(revision?.source, "internal_docker");
  assert.deepEqual(
    [revision?.sourceRevisionConfig.image_uri, revision?.sourceRevisionConfig.repo_ref],
    ["registry.example/r/bot:2", null],
  );
  assert.deepEqual(
    [sourceRevisionConfig.repo_ref, sourceRevisionConfig.langgraph_config_path],
    ["main", "langgraph.json"],
  );

  const uploaded = current("github", { sourceRevisionConfig, latestRevisionSource: "internal_docker" });
  const sameCode = applyPatch(uploaded, { secrets: [{ name: "A", value: "1" }] }, context).revision;
  assert.deepEqual(
    [sameCode?.source, sameCode?.sourceRevisionConfig.image_uri],
    ["internal_docker", "registry.example/r/bot:2"],
  );
  const back = applyPatch(uploaded, { source_revision_config: { repo_ref: "main" } }, context);
  assert.deepEqual([back.revision?.source, back.sourceRevisionConfig.image_uri], ["github", null]);
});

test("revision_source: refuses an impossible source, even if nothing else requests a revision", () => {
  const refused = (source: SourceKind, patch: PatchDeployment) =>
    refusal(() => applyPatch(current(source), patch, context));
  const secrets = [{ name: "A", value: "1" }];
  assert.match(refused("internal_docker", { revision_source: "github", secrets }), /^400 revisionSourceUnusable/);
  assert.match(refused("github", { revision_source: "internal_docker", secrets }), /needs 'image_uri'\.$/);
  assert.match(refused("github", { revision_source: "internal_source", secrets }), /needs 'source_tarball_path'\.$/);
  assert.match(
    refused("external_docker", { revision_source: "internal_docker", source_revision_config: { image_uri: "a/b:1" } }),
    /^400 revisionSourceUnusable/,
  );
});

test("stores settings sent before the first image, and a new revision reports what is missing", () => {
  const waiting = current("internal_docker", {
    latestRevisionSource: null,
    sourceRevisionConfig: { ...current("internal_docker").sourceRevisionConfig, image_uri: null },
  });
  const early = applyPatch(waiting, { secrets: [{ name: "A", value: "1" }] }, context);
  assert.deepEqual([early.revision, early.secrets], [null, { A: "1" }]);
  assert.match(
    refusal(() => applyNewRevision(waiting, {}, context)),
    /^400 fieldRequired: .*image_uri' is required/,
  );
  const archive = {
    revision_source: "internal_source" as const,
    source_revision_config: { source_tarball_path: uploadedPath, langgraph_config_path: "my agent/langgraph.json" },
  };
  assert.equal(applyPatch(waiting, archive, context).revision?.source, "internal_source");
});

test("refuses an archive that this deployment did not upload, and still accepts its current one", () => {
  const deployment = current("internal_source");
  const none = { ...context, uploadedPaths: [] };
  assert.equal(
    refusal(() => applyPatch(deployment, { source_revision_config: { source_tarball_path: "uploads/x" } }, none)),
    "400 invalidTarballPath: Invalid source_tarball_path.",
  );
  assert.equal(applyNewRevision(deployment, {}, none).revision.sourceRevisionConfig.source_tarball_path, uploadedPath);
});

test("refuses changes of a deployment that is being deleted", () => {
  const dying = current("github", { status: "AWAITING_DELETE" });
  const text = `400 beingDeleted: Deployment ID ${dying.id} is being deleted.`;
  assert.equal(
    refusal(() => applyPatch(dying, {}, context)),
    text,
  );
  assert.equal(
    refusal(() => applyNewRevision(dying, {}, context)),
    text,
  );
});

test("a new revision resolves its branch again and forgets the old commit", () => {
  const built = current("github");
  built.sourceRevisionConfig.repo_commit_sha = "a".repeat(40);
  assert.equal(applyNewRevision(built, {}, context).revision.sourceRevisionConfig.repo_commit_sha, null);
  assert.equal(applyPatch(built, { display_name: "x" }, context).sourceRevisionConfig.repo_commit_sha, "a".repeat(40));
});

test("a deployment keeps the engine that it chose until it chooses default", () => {
  const chosen = applyPatch(current("github"), { source_config: { engine: "postgres" } }, context).sourceConfig;
  assert.equal(chosen.engine, "postgres");
  const later = current("github", { sourceConfig: chosen });
  assert.equal(
    applyPatch(later, { source_config: { build_command: "npm ci" } }, context).sourceConfig.engine,
    "postgres",
  );
  assert.equal(applyPatch(later, { source_config: { engine: "default" } }, context).sourceConfig.engine, null);
});

test("a push creates a revision of the tracked branch", () => {
  const moved = current("github", { trackedRef: "dev" });
  const { revision, trackedRef } = applyPush(moved, context);
  assert.deepEqual([revision?.source, revision?.sourceRevisionConfig.repo_ref, trackedRef], ["github", "dev", "dev"]);
});

test("a redeploy uses the named revision's code with today's commands and resources", () => {
  const before = current("github");
  const named = {
    id: "r1",
    status: "DEPLOYED" as const,
    source: "github" as const,
    sourceConfig: before.sourceConfig,
    sourceRevisionConfig: { ...before.sourceRevisionConfig, repo_ref: "old", repo_commit_sha: "b".repeat(40) },
  };
  const today = current("github", {
    sourceConfig: { ...before.sourceConfig, build_command: "npm run build", repo_url: "https://github.com/acme/moved" },
  });
  const { revision, sourceConfig, sourceRevisionConfig, trackedRef } = redeploySettings(named, today);
  assert.deepEqual(revision.sourceRevisionConfig, named.sourceRevisionConfig);
  assert.equal(revision.sourceConfig.build_command, "npm run build");
  assert.equal(revision.sourceConfig.repo_url, before.sourceConfig.repo_url);
  assert.equal(sourceConfig.repo_url, "https://github.com/acme/moved");
  assert.deepEqual([sourceRevisionConfig.repo_ref, trackedRef], ["old", "main"]);
  assert.match(
    refusal(() => redeploySettings({ ...named, status: "BUILDING" }, today)),
    /^400 revisionInProgress/,
  );
});

test("applying a patch twice gives the same result as once", () => {
  const text = fc.option(
    fc.constantFrom("main", "dev", "refs/tags/v1", "a/b.json", "x.json", "npm ci", "npm i && npm t"),
    { nil: null },
  );
  const patches = fc.record(
    {
      source_config: fc.record(
        { install_command: text, build_command: text, build_on_push: fc.option(fc.boolean(), { nil: null }) },
        { requiredKeys: [] },
      ),
      source_revision_config: fc.record({ repo_ref: text, langgraph_config_path: text }, { requiredKeys: [] }),
      tracked_repo_ref: text,
      secrets: fc.array(fc.record({ name: fc.constantFrom("A", "B"), value: fc.string() }), { maxLength: 1 }),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(patches, (patch) => {
      let once: ReturnType<typeof applyPatch>;
      try {
        once = applyPatch(current("github"), patch, context);
      } catch {
        return;
      }
      const { revision: _revision, secrets: _secrets, ...settings } = once;
      assert.deepEqual(applyPatch(current("github", settings), patch, context), once);
    }),
  );
});

test("an empty patch of any source changes nothing", () => {
  for (const source of sources) {
    const deployment = current(source);
    const { sourceConfig, sourceRevisionConfig, trackedRef, secretReferences, tiers } = deployment;
    assert.deepEqual(applyPatch(deployment, {}, context), {
      sourceConfig,
      sourceRevisionConfig,
      trackedRef,
      secretReferences,
      tiers,
      secrets: null,
      revision: null,
    });
  }
});
