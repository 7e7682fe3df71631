import { type Client, isSettled, WaitTimeout } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";
import { count, duration, parseDuration, shellWord } from "../terminal/text.ts";
import { showChanges } from "./change.ts";
import { compare } from "./changes.ts";
import { usualFile } from "./desired-file.ts";

interface PlanOptions {
  file?: string;
  /** Names, or `true` without any: the deployments with the tag of the file. */
  prune?: string[] | true;
}

interface ApplyOptions extends PlanOptions {
  dryRun?: boolean;
  /** Commander's form of `--no-wait`. */
  wait: boolean;
  timeout: string;
}

/** Shows what `apply` would do. Exit code 2: there are changes. */
export async function plan(session: Session, _: unknown, options: PlanOptions): Promise<void> {
  const { steps, left } = await compare(session, options);
  const changes = steps.map(({ change }) => change);
  session.answer({ changes, left }, () => showChanges(changes));
  sayLeft(session, left);
  if (changes.length === 0) return session.terminal.say("No changes.");
  const argv = [
    "pierhead apply",
    ...(options.file === undefined || options.file === usualFile ? [] : [`--file ${shellWord(options.file)}`]),
    ...(options.prune === undefined
      ? []
      : ["--prune", ...(options.prune === true ? [] : options.prune.map(shellWord))]),
  ];
  throw new CliFailure(`${count(changes.length, "change")} to make.`, {
    exitCode: exitCodes.cancelled,
    isNotice: true,
    hints: [`Apply the changes: ${argv.join(" ")}`],
  });
}

/**
 * Creates and changes the deployments of a file until they are as it declares, and until their newest revisions run. Does
 * nothing where they already do.
 */
export async function apply(session: Session, _: unknown, options: ApplyOptions): Promise<void> {
  const { terminal, signal } = session;
  const timeoutMs = parseDuration(options.timeout);
  const startedAt = performance.now();
  const { steps, unchanged, left } = await compare(session, options);
  const changes = steps.map(({ change }) => change);
  sayLeft(session, left);
  if (options.dryRun === true)
    return session.answer({ changes, left, applied: false }, () => showChanges(changes) ?? "No changes.");
  const client = await session.client();
  // The newest revision of an unchanged deployment may have failed in an earlier run.
  const begun = [...unchanged];
  for (const { change, act } of steps) {
    terminal.say(`${verbs[change.action]} ${harmless(change.name)}`);
    const made = await act(client, signal);
    if (made !== undefined) begun.push(made);
  }
  const wait = { isWaiting: options.wait, timeoutMs, signal };
  const results = await Promise.all(begun.map(async (one) => ({ ...one, result: await resultOf(client, one, wait) })));
  const named = (wanted: Result) => results.filter(({ result }) => result === wanted).map(({ name }) => name);
  const [failed, pending] = [named("failed"), named("pending")];
  session.answer({ changes, left, applied: true, failed, pending }, () => showChanges(changes) ?? "No changes.");
  if (failed.length > 0) {
    throw new CliFailure(`The newest revision of ${failed.join(", ")} failed.`, {
      hints: failed.flatMap((name) => [`See why:   pierhead why ${name}`, `Try again: pierhead retry ${name}`]),
    });
  }
  if (pending.length === 0) {
    if (changes.length > 0)
      terminal.say(
        `${terminal.paintErr("green", "Applied")} ${count(changes.length, "change")} in ${duration(performance.now() - startedAt)}`,
      );
    return;
  }
  throw new CliFailure(`The rollout of ${pending.join(", ")} continues.`, {
    exitCode: exitCodes.pending,
    hints: pending.map((name) => `Watch it: pierhead status ${name} --watch`),
  });
}

/** Names what left the file, because nothing deletes it without `--prune`. */
function sayLeft({ terminal }: Session, left: readonly string[]): void {
  if (left.length === 0) return;
  terminal.say(`Not in the file, but with its tag: ${left.map(harmless).join(", ")}. To delete: --prune`);
}

const verbs = { create: "Creating", change: "Changing", delete: "Deleting" } as const;

type Result = "deployed" | "failed" | "pending";

/** Returns what became of the newest revision of a deployment. */
async function resultOf(
  client: Client,
  { id, latest_revision_id: latest, active_revision_id: active }: Deployment,
  wait: { isWaiting: boolean; timeoutMs: number; signal: AbortSignal },
): Promise<Result> {
  if (latest === null || latest === active) return "deployed";
  const ids = { deployment_id: id, revision_id: latest };
  try {
    const { status } = wait.isWaiting ? await client.waitForRevision(ids, wait) : await client.getRevision(ids, wait);
    if (!isSettled(status)) return "pending";
    if (status !== "SKIPPED") return status === "DEPLOYED" ? "deployed" : "failed";
    // A newer revision replaced it, such as that of a push.
    const now = await client.getDeployment(ids, wait);
    return now.latest_revision_id === latest ? "failed" : await resultOf(client, now, wait);
  } catch (error) {
    if (error instanceof WaitTimeout) return "pending";
    throw error;
  }
}
