import type { Deployment, DeploymentType, SourceKind } from "../../../src/contract/deployments/deployment.ts";
import type { HealthWord } from "../../../src/contract/deployments/health.ts";

export type { Deployment } from "../../../src/contract/deployments/deployment.ts";
export type { HealthWord } from "../../../src/contract/deployments/health.ts";

/** The contract's values, repeated because its schemas would add 40 kB to the first view. The compiler finds a missing one. */
const types: Record<DeploymentType, true> = {
  dev_free: true,
  dev: true,
  prod: true,
  dev_zero: true,
  dev_free_zero: true,
};
const healths: Record<HealthWord, true> = {
  crash_looping: true,
  failed: true,
  degraded: true,
  unknown: true,
  deploying: true,
  live: true,
  sleeping: true,
  deleting: true,
};
export const HealthNames = Object.keys(healths) as HealthWord[];

export const DeploymentTypeNames = Object.keys(types) as DeploymentType[];

/** Health words that need the attention of a user, the gravest first. */
export const attentionWords: readonly HealthWord[] = ["crash_looping", "failed", "degraded", "unknown"];

const typeTexts: Record<DeploymentType, string> = {
  prod: "Production",
  dev: "Development",
  dev_free: "Development, smallest",
  dev_zero: "Development, stops when idle",
  dev_free_zero: "Development, smallest, stops when idle",
};

/** Returns a type of the API as words, such as `Production` for `prod`. */
export const typeText = (type: string) => typeTexts[type as DeploymentType] ?? type;

export const sourceNames: Record<SourceKind, string> = {
  github: "Git repository",
  internal_source: "Upload",
  internal_template: "Template",
  external_docker: "Image",
  internal_docker: "Pushed image",
};

/** Returns the owner and the name of a repository, such as `acme/orders`. */
export const repositoryText = (url: string) =>
  url
    .replace(/^(?:[a-z+]+:\/\/)?(?:[^/]*@)?[^/:]*(?::\d+)?[/:]/, "")
    .replace(/\.git$/, "")
    .replace(/^\/+/, "") || url;

/** Returns a branch, tag or commit as people name it. */
export const refText = (ref: string) =>
  /^[0-9a-f]{40}$/.test(ref) ? ref.slice(0, 8) : ref.replace(/^refs\/(?:heads|tags)\//, "");

/** Returns the source of a deployment in one line. */
export function sourceText({ source, source_config: config, source_revision_config: revision }: Deployment): string {
  if (source === "github") return `${repositoryText(config.repo_url ?? "")} · ${refText(revision.repo_ref ?? "")}`;
  if (source === "internal_template") return `Template ${config.template_id ?? ""}`;
  if (source === "internal_source") return "Uploaded folder";
  return revision.image_uri ?? "Image";
}
