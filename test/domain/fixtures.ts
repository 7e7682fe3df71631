import type { CreateDeployment, SourceKind } from "../../src/contract/deployments/deployment.ts";
import { ApiError } from "../../src/contract/error.ts";
import { normalizeCreate } from "../../src/domain/create.ts";
import type { CurrentDeployment, RuleContext } from "../../src/domain/settings.ts";

export const uploadedPath = "uploads/d/1.tar.gz";

export const context: RuleContext = {
  mode: "standalone",
  ownHost: "pierhead.example.org",
  allowLocalSources: false,
  hasBuiltinDataPlane: true,
  listeners: [],
  podRights: [],
  uploadedPaths: [uploadedPath],
  templateIds: ["hello"],
};

/** The minimal request of each source; internal_docker and internal_source include their code. */
export const minimal: Record<SourceKind, CreateDeployment> = {
  github: {
    name: "bot",
    source: "github",
    source_config: { repo_url: "https://github.com/acme/bot", build_on_push: true },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
  },
  internal_docker: {
    name: "bot",
    source: "internal_docker",
    source_config: {},
    source_revision_config: { image_uri: "registry.example/r/bot:1" },
  },
  internal_source: {
    name: "bot",
    source: "internal_source",
    source_config: {},
    source_revision_config: { source_tarball_path: uploadedPath, langgraph_config_path: "langgraph.json" },
  },
  internal_template: {
    name: "bot",
    source: "internal_template",
    source_config: { template_id: "hello" },
    source_revision_config: {},
  },
  external_docker: {
    name: "bot",
    source: "external_docker",
    source_config: { resource_spec: {} },
    source_revision_config: { image_uri: `registry.example/bot@sha256:${"a".repeat(64)}` },
  },
};

export const sources = Object.keys(minimal) as SourceKind[];

/** A deployment after its first revision. */
export function current(source: SourceKind, changes: Partial<CurrentDeployment> = {}): CurrentDeployment {
  const made = normalizeCreate(minimal[source], context);
  return {
    id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11",
    name: made.name,
    status: "READY",
    source,
    sourceConfig: made.sourceConfig,
    sourceRevisionConfig: made.sourceRevisionConfig,
    trackedRef: made.trackedRef,
    secretNames: [],
    secretReferences: null,
    tiers: { deployment: null, compute: null, database: null },
    latestRevisionSource: source,
    url: "http://127.0.0.1:8124/d/bot-6b1f0f64",
    ...changes,
  };
}

/** Returns the error of a call as `status code: text`; "accepted" when it does not throw. */
export function refusal(call: () => unknown): string {
  try {
    call();
    return "accepted";
  } catch (error) {
    if (error instanceof ApiError) return `${error.status} ${error.code}: ${error.message}`;
    throw error;
  }
}
