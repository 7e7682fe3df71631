import type { Deployment, PatchDeployment, Secret } from "../../contract/deployments/deployment.ts";
import { type Change, differing, showChanges } from "../declaration/change.ts";
import type { Session } from "../session.ts";
import { shortId } from "../terminal/text.ts";

/** Answers a call with `--dry-run`. @param effects Sentences about what else would happen. */
export function answerDryRun({ terminal, answer }: Session, changes: Change[], effects: string[]): void {
  answer({ dry_run: true, changes, effects }, () => {
    const lines = [showChanges(changes), ...effects].filter((line) => line !== undefined);
    return lines.length === 0 ? undefined : lines.join("\n");
  });
  const isNothing = changes.length === 0 && effects.length === 0;
  terminal.say(
    isNothing ? "Nothing would change." : "Nothing was changed. Repeat the command without --dry-run to do it.",
  );
}

interface Settings {
  source?: string | null | undefined;
  deployment_tier?: string | null | undefined;
  source_config?: PatchDeployment["source_config"] | undefined;
  source_revision_config?: PatchDeployment["source_revision_config"] | undefined;
}

/** Returns what a request would change. Settings that it leaves out or sends as null stay as they are. */
export function changeBy(
  { name, current }: { name: string; current: Deployment | undefined },
  { source_config: config, source_revision_config: code, ...rest }: Settings,
  variables: readonly Secret[] = [],
): Change {
  const given = { ...rest, ...config, ...code };
  const wanted = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== null));
  return {
    name,
    action: current === undefined ? "create" : "change",
    fields: differing(current === undefined ? {} : flat(current), wanted),
    variables: { set: changedVariables(current, variables), removed: [] },
  };
}

/** Returns the names of the variables that a deployment lacks or has with another value. */
export function changedVariables(current: Deployment | undefined, variables: readonly Secret[]): string[] {
  const present = new Map(current?.secrets.map(({ name, value }) => [name, value]));
  return variables.filter(({ name, value }) => present.get(name) !== value).map(({ name }) => name);
}

/** Says what serves until the new revision does. */
export function whileRollingOut(current: Deployment | undefined): string {
  const active = current?.active_revision_id ?? null;
  return active === null ? "" : ` Revision ${shortId(active)} serves until the new one is healthy.`;
}

function flat({ source, deployment_tier, source_config, source_revision_config }: Deployment): Record<string, unknown> {
  const engine = source_config.engine ?? "default";
  return { source, deployment_tier, ...source_config, ...source_revision_config, engine };
}
