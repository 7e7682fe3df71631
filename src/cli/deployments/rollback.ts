import { ApiFailure } from "../../client/failure.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import type { RollbackPreview } from "../../contract/revisions/run-again.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { confirm } from "../terminal/prompt.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, shortId } from "../terminal/text.ts";
import { describeCode } from "./describe-revision.ts";
import { answerDryRun, whileRollingOut } from "./dry-run.ts";
import { allRevisions, findDeployment, findRevision } from "./find-deployment.ts";
import { type FollowOptions, followRevision } from "./follow-revision.ts";

/** Rolls back to a given revision, by default to the last one deployed before the active revision. Shows first what changes. */
export async function rollback(
  session: Session,
  [name = "", id]: (string | undefined)[],
  options: FollowOptions & { yes?: boolean; codeOnly?: boolean },
): Promise<void> {
  const { terminal, signal } = session;
  const client = await session.client();
  const deployment = await findDeployment(session, name);
  const target = await chooseTarget(session, deployment, id);
  const code_only = options.codeOnly ?? false;
  const ids = { deployment_id: deployment.id, revision_id: target.id };
  let shown = "";
  for (let attempt = 1; ; attempt += 1) {
    const ifUnchanged = await client.getDeployment({ deployment_id: deployment.id }, { signal });
    const preview = await client.previewRollback({ ...ids, code_only }, { signal });
    if (options.dryRun) return dryRun(session, deployment, preview);
    const text = describeBoth(deployment, preview, id);
    if (text !== shown) {
      for (const one of text.split("\n")) terminal.say(one);
      // Another rollback undoes this one, so scripts need no confirmation.
      if (!options.yes && terminal.isInteractive) await confirm(session, "Roll back?");
    }
    shown = text;
    try {
      const changed = await client.rollbackRevision({ ...ids, body: { code_only } }, { signal, ifUnchanged });
      return await followRevision(session, changed, changed.latest_revision_id ?? "", options);
    } catch (error) {
      // A change by another user in between must not be undone unseen.
      if (!(error instanceof ApiFailure) || error.status !== 412 || attempt === attemptsMax) throw error;
    }
  }
}

function dryRun(
  session: Session,
  deployment: Deployment,
  { to, changes, variables, needs_build }: RollbackPreview,
): void {
  const fields = changes
    .filter(isReadable)
    .map(({ field, before, after }) => ({ field, from: before ?? null, to: after ?? null }));
  const set = [...variables.added, ...variables.changed];
  const change = {
    ...{ name: deployment.name, action: "change" as const, fields },
    variables: { set, removed: variables.removed },
  };
  answerDryRun(
    session,
    [change],
    [
      `Restores revision ${line(to)}.${whileRollingOut(deployment)}`,
      ...(needs_build ? ["Its artifact is no longer stored, so its source is built again."] : []),
    ],
  );
}

async function chooseTarget(session: Session, deployment: Deployment, id: string | undefined): Promise<Revision> {
  const target = id === undefined ? await previous(session, deployment) : await findRevision(session, deployment, id);
  if (target.id !== deployment.active_revision_id) return target;
  throw new CliFailure(`Revision ${shortId(target.id)} already serves.`, {
    hints: [`Replace its replicas: pierhead restart ${deployment.name}`],
  });
}

/** A deployment that changes more often than this while a user decides is being changed by another program. */
const attemptsMax = 5;

/** Returns the lines that say what a rollback changes. */
export function describePreview({ name }: Pick<Deployment, "name">, preview: RollbackPreview): string[] {
  const { from, to, changes, variables, code_only: isCodeOnly, needs_build: needsBuild } = preview;
  const listed = (sign: string, names: string[]) => names.map((variable) => `    ${sign} ${harmless(variable)}`);
  const variableLines = [
    ...listed("+", variables.added),
    ...listed("-", variables.removed),
    ...listed("~", variables.changed),
  ];
  const shown = changes.filter(isReadable);
  const settings = shown.map(
    ({ field, before, after }) => `    ${harmless(field)}: ${valueText(before)} -> ${valueText(after)}`,
  );
  const unchanged = isCodeOnly ? "  Variables and resources stay as they are." : "  Variables stay the same.";
  return [
    `Rolling back ${harmless(name)}`,
    ...(from === null ? [] : [`  from  ${line(from)}`]),
    `  to    ${line(to)}`,
    ...(settings.length === 0 ? [] : ["  Settings:", ...settings]),
    ...(variableLines.length === 0 ? [unchanged] : ["  Variables:", ...variableLines]),
    ...(needsBuild ? ["  Its artifact is no longer stored, so its source is built again."] : []),
  ];
}

const describeBoth = (deployment: Deployment, preview: RollbackPreview, id: string | undefined) =>
  [...describePreview(deployment, preview), ...(id === undefined ? describeReturn(deployment, preview) : [])].join(
    "\n",
  );

/** Returns what users may not expect: a failed revision needs no rollback, and a second rollback undoes the first. */
export function describeReturn(
  { name, health }: Pick<Deployment, "name"> & Partial<Pick<Deployment, "health">>,
  { from, to }: RollbackPreview,
): string[] {
  const notes: string[] = [];
  if (health?.reason === "NewRevisionFailed" && from !== null) {
    const serving = from.number ?? shortId(from.id);
    notes.push(`  The newest revision failed and never served. Without this rollback, ${serving} goes on serving.`);
  }
  if (from?.reason !== "rollback") return notes;
  const first = from.based_on?.number == null ? "" : ` to ${from.based_on.number}`;
  return [
    ...notes,
    `  The revision that serves is itself a rollback${first}. This undoes it and returns to ${to.number ?? shortId(to.id)}.`,
    `  To go further back, name a revision: pierhead rollback ${harmless(name)} REVISION`,
  ];
}

/** The path of an upload says nothing to users. What names the revisions names both uploads. */
const isReadable = ({ field }: { field: string }) => field !== "source_revision_config.source_tarball_path";

function valueText(value: unknown): string {
  return harmless(
    value === null || value === undefined ? "none" : typeof value === "string" ? value : JSON.stringify(value),
  );
}

async function previous(session: Session, deployment: Deployment): Promise<Revision> {
  const client = await session.client();
  let isBehindActive = deployment.active_revision_id === null;
  for await (const revision of allRevisions(client, deployment.id, session.signal)) {
    if (isBehindActive && revision.status === "DEPLOYED") return revision;
    if (revision.id === deployment.active_revision_id) isBehindActive = true;
  }
  const { active_revision_id: active, latest_revision_id: latest } = deployment;
  const serves =
    active === null || active === latest ? [] : [`Revision ${shortId(active)} still serves: the newest one never did`];
  throw new CliFailure(`${deployment.name} has no earlier deployed revision.`, {
    hints: [...serves, `List its revisions: pierhead status ${deployment.name}`],
  });
}

const line = (revision: Revision) =>
  `${revision.number ?? "-"}  ${shortId(revision.id)}  ${describeCode(revision)}  (created ${age(revision.created_at)} ago)`;
