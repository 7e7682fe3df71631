import type { Deployment } from "../../contract/deployments/deployment.ts";
import { replicasMax } from "../../domain/limits.ts";
import { differing } from "../declaration/change.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { answerDryRun, whileRollingOut } from "./dry-run.ts";
import { findDeployment } from "./find-deployment.ts";
import { answerWithoutRevision, type FollowOptions, followRevision } from "./follow-revision.ts";
import { scaleOf } from "./scale-of.ts";

/** Changes the number of replicas and follows the revision that runs the current code with it. */
export async function scale(
  session: Session,
  [name = "", wanted = ""]: string[],
  options: FollowOptions,
): Promise<void> {
  const { terminal, signal } = session;
  const body = boundsOf(wanted, name);
  const replicas = wanted === "1" ? "1 replica" : `${wanted} replicas`;
  const client = await session.client();
  const found = await findDeployment(session, name);
  if (options.dryRun) return dryRun(session, found, body);
  const changed = await client.scaleDeployment({ deployment_id: found.id, body }, { signal });
  const { latest_revision_id: revisionId } = changed;
  if (revisionId !== null && revisionId !== found.latest_revision_id) {
    terminal.say(`Scaling ${found.name} to ${replicas}`);
    return followRevision(session, changed, revisionId, options);
  }
  terminal.say(
    revisionId === null
      ? `Stored for the first deploy of ${found.name}.`
      : `${found.name} already has this scale: ${replicas}.`,
  );
  answerWithoutRevision(session, changed);
}

function dryRun(session: Session, deployment: Deployment, wanted: Bounds): void {
  const { minReplicas, maxReplicas } = scaleOf(deployment);
  const fields = differing({ min_replicas: minReplicas, max_replicas: maxReplicas }, wanted);
  if (fields.length === 0) {
    answerDryRun(session, [], []);
    return;
  }
  const change = { name: deployment.name, action: "change" as const, fields, variables: { set: [], removed: [] } };
  const effects = [`The current code runs in a new revision.${whileRollingOut(deployment)}`];
  answerDryRun(session, [change], deployment.latest_revision_id === null ? [] : effects);
}

interface Bounds {
  min_replicas: number;
  max_replicas: number;
}

/** Reads a number, or a range such as 2-6. */
function boundsOf(text: string, name: string): Bounds {
  const [, min = "", max = min] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(text) ?? [];
  const bounds = { min_replicas: Number(min), max_replicas: Number(max) };
  const isValid = min !== "" && bounds.max_replicas >= 1 && bounds.max_replicas <= replicasMax;
  if (isValid && bounds.min_replicas <= bounds.max_replicas) return bounds;
  throw usageFailure(
    `"${text}" is not a number of replicas.`,
    `Give a number from 1 to ${replicasMax}: pierhead scale ${name} 3`,
    `Or a range, to scale by load: pierhead scale ${name} 2-6`,
  );
}
