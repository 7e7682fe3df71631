import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { Failure, FailureCode } from "../../contract/revisions/failure.ts";
import { mayPass } from "../../domain/failures.ts";
import { kindOf } from "../../domain/tiers.ts";
import { shortId } from "../terminal/text.ts";

type Subject = Pick<
  Deployment,
  "name" | "source" | "source_config" | "deployment_tier" | "latest_revision_id" | "active_revision_id"
>;

/** Returns the command that leads out of a failure, or to what says more about it; null: a newer server reports a code that this program does not know. */
export function wayOut(deployment: Subject, { code, variables }: Failure): string | null {
  const { name } = deployment;
  if (code === "variables_missing") return `pierhead env set ${name} ${variables.join(" ") || "VARIABLE"}`;
  if (code === "out_of_memory") return largerSize(deployment) ?? deployAgain(deployment);
  if (code === "command_invalid") return correctCommand(deployment);
  if (code === "engine_unavailable") return withoutEngine(deployment);
  if (code === "image_missing") return `pierhead change ${name} --image IMAGE`;
  if (code === "config_missing") return `pierhead change ${name} --config PATH`;
  if (code === "ref_missing") return `pierhead change ${name} --ref BRANCH`;
  if (code === "repository_refused") return "pierhead integrations list";
  if (buildLog.has(code)) return `pierhead logs ${name} --build${revisionOf(deployment)}`;
  if (replicaLog.has(code)) return `pierhead logs ${name}${revisionOf(deployment)}`;
  if (mayPass(code)) return tryAgain(deployment);
  // The compute of the server runs no image, so another image is no way out.
  if (code === "unsupported" && deployment.source.endsWith("_docker")) return tryAgain(deployment);
  if (inSource.has(code)) return deployAgain(deployment);
  return null;
}

/** Without a choice of the deployment, the configuration in the source names the engine. */
const withoutEngine = (deployment: Subject) =>
  deployment.source_config.engine == null
    ? deployAgain(deployment)
    : `pierhead change ${deployment.name} --engine default`;

const buildLog = new Set<FailureCode>(["build_failed", "build_timed_out", "install_failed", "toolchain_failed"]);
const replicaLog = new Set<FailureCode>(["exited", "never_healthy", "init_failed"]);

const inSource = new Set<FailureCode>([
  "archive_refused",
  "config_invalid",
  "out_of_disk",
  "source_missing",
  "start_refused",
  "unsupported",
]);

/** The log of a revision that never served is not that of the deployment. */
const revisionOf = ({ latest_revision_id: latest, active_revision_id: active }: Subject) =>
  latest === null || latest === active ? "" : ` --revision ${shortId(latest)}`;

/** A revision that has served did not fail, so it is not retried. */
const tryAgain = ({ name, latest_revision_id: latest, active_revision_id: active }: Subject) =>
  latest === active ? `pierhead restart ${name}` : `pierhead retry ${name}`;

function deployAgain(deployment: Subject): string {
  const { name, source } = deployment;
  if (source === "internal_template") return tryAgain(deployment);
  if (source === "github") return `pierhead deploy --latest --name ${name}`;
  return source === "internal_source"
    ? `pierhead deploy DIRECTORY --name ${name}`
    : `pierhead change ${name} --image IMAGE`;
}

function correctCommand(deployment: Subject): string {
  const { name, source_config: config } = deployment;
  if (config.install_command !== null) return `pierhead change ${name} --install-command COMMAND`;
  if (config.build_command !== null) return `pierhead change ${name} --build-command COMMAND`;
  return deployAgain(deployment);
}

function largerSize({ name, source_config: { deployment_type: type }, deployment_tier: tier }: Subject): string | null {
  if (type === null || kindOf(type) === null || tier?.endsWith("_L")) return null;
  return `pierhead change ${name} --size ${tier?.endsWith("_M") ? "L" : "M"}`;
}
