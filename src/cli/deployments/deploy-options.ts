import type { Deployment, EngineChoice } from "../../contract/deployments/deployment.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import type { FollowOptions } from "./follow-revision.ts";

/** Options of `pierhead deploy`. */
export interface DeployOptions extends FollowOptions {
  name?: string;
  config?: string;
  ref?: string;
  template?: string;
  image?: string;
  latest?: boolean;
  envFrom?: string;
  type?: string;
  installCommand?: string;
  buildCommand?: string;
  engine?: string;
  listener?: string;
  namespace?: string;
  /** Labels of the listener: `KEY=VALUE`, also several with commas. */
  where?: string[];
}

/** Returns the settings of a deployment that decide how its source is built. The server checks them. */
export function buildSettingsOf({
  installCommand,
  buildCommand,
  engine,
}: Pick<DeployOptions, "installCommand" | "buildCommand" | "engine">) {
  return {
    ...(engine === undefined ? {} : { engine: engine as EngineChoice }),
    ...(installCommand === undefined ? {} : { install_command: installCommand }),
    ...(buildCommand === undefined ? {} : { build_command: buildCommand }),
  };
}

/** Rejects options that a source does not have. @param given values by option. @throws CliFailure for the first that is set. */
export function refuseGiven(given: Record<string, unknown>, because: string): void {
  const [option] = Object.entries(given).find(([, value]) => value !== undefined) ?? [];
  if (option !== undefined) throw usageFailure(`${option} ${because}`);
}

/** Warns when `--type` has no effect, because a deployment keeps the type of its first deploy. */
export function sayTypeStays(
  { terminal }: Session,
  { name, source_config }: Deployment,
  { type }: DeployOptions,
): void {
  const stays = source_config.deployment_type;
  if (type === undefined || type === stays) return;
  const text = `  --type ${type} is ignored: ${name} stays ${stays}, the type of its first deploy.`;
  terminal.say(terminal.paintErr("yellow", text));
}
