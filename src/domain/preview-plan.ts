import type { PreviewSettings } from "../contract/integrations/git-settings.ts";

/** An open pull request into the followed branch. */
export interface OpenPull {
  number: number;
  headRef: string;
  headSha: string;
  /** Whether its commits are in this repository. Forks are written by strangers, and previews get copies of secrets. */
  isOwn: boolean;
  labels: readonly string[];
}

/** A pull request that has, or had, a deployment. */
export interface KnownPreview {
  number: number;
  /** null: the deployment was deleted while the pull request stayed open. */
  deploymentId: string | null;
  headSha: string;
  /** Its last commit or request. */
  activeAt: Date;
}

export type PreviewStep =
  | { kind: "create"; pull: OpenPull }
  | { kind: "update"; pull: OpenPull; deploymentId: string }
  /** `isClosed`: the pull request is no longer wanted and is removed; otherwise a new commit creates the deployment again. */
  | { kind: "remove"; number: number; deploymentId: string | null; isClosed: boolean };

const hourMs = 3_600_000;

/**
 * Plans the steps that make the previews match the pull requests. Pure: closed, idle and surplus previews follow from the
 * comparison.
 * @param pulls oldest first: if there are more than the limit of previews, the oldest get one.
 * @param settings null: previews are disabled.
 */
export function planPreviews(
  pulls: readonly OpenPull[],
  known: readonly KnownPreview[],
  settings: PreviewSettings | null,
  now: Date,
): PreviewStep[] {
  const wanted = settings === null ? [] : pulls.filter((pull) => isWanted(pull, settings));
  const byNumber = new Map(wanted.map((pull) => [pull.number, pull]));
  const steps: PreviewStep[] = [];
  let live = 0;
  for (const { number, deploymentId, headSha, activeAt } of known) {
    const pull = byNumber.get(number);
    if (pull === undefined) steps.push({ kind: "remove", number, deploymentId, isClosed: true });
    else if (deploymentId === null) {
      if (pull.headSha === headSha) byNumber.delete(number);
    } else {
      byNumber.delete(number);
      if (pull.headSha !== headSha) steps.push({ kind: "update", pull, deploymentId });
      else if (isIdle(activeAt, settings, now)) {
        steps.push({ kind: "remove", number, deploymentId, isClosed: false });
        continue;
      }
      live += 1;
    }
  }
  const free = Math.max(0, (settings?.max_previews ?? 0) - live);
  return [...steps, ...[...byNumber.values()].slice(0, free).map((pull) => ({ kind: "create", pull }) as const)];
}

const isWanted = (pull: OpenPull, { trigger, label }: PreviewSettings) =>
  pull.isOwn && (trigger === "all" || pull.labels.includes(label));

const isIdle = (activeAt: Date, settings: PreviewSettings | null, now: Date) =>
  settings !== null && now.getTime() - activeAt.getTime() >= settings.idle_ttl_hours * hourMs;
