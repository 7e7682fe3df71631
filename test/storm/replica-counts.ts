import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import type pg from "pg";
import { eventually } from "../support/eventually.ts";

/** Covers a build whose server died twice and passes that retry after minutes. Settling measures nothing. */
const settleTimeoutMs = 1_200_000;

const unsettled = "('CREATING', 'QUEUED', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'UNKNOWN')";

const counted = async (db: pg.Client, text: string, values: unknown[] = []): Promise<number> =>
  Number((await db.query(`select count(*) as count from ${text}`, values)).rows[0].count);

export async function waitUntilSettled(db: pg.Client): Promise<void> {
  await eventually(
    () => counted(db, `revisions where status in ${unsettled}`),
    (count) => count === 0,
    { timeoutMs: settleTimeoutMs, what: "no revision in progress" },
  );
}

export async function waitUntilGone(db: pg.Client): Promise<void> {
  await eventually(
    () => counted(db, "deployments"),
    (count) => count === 0,
    {
      timeoutMs: settleTimeoutMs,
      what: "no deployment",
    },
  );
}

/** Deployments whose build was given up because its servers died three times. That is correct, and the user sees why. */
export async function findGivenUp(db: pg.Client): Promise<string[]> {
  const { rows } = await db.query(`select deployment_id as id from revisions where ${isGivenUp}`);
  return rows.map(({ id }) => id);
}

/** Other failures, printed for debugging. */
export async function findFailures(db: pg.Client): Promise<string[]> {
  const { rows } = await db.query(
    `select r.id, r.status, r.status_message, b.attempts, b.owner from revisions r left join builds b on b.revision_id = r.id
      where r.status not in ('DEPLOYED', 'SKIPPED') and not (r.${isGivenUp.replace(" and status", " and r.status")}) limit 5`,
  );
  return rows.map((row) => JSON.stringify(row));
}

const isGivenUp = "status = 'BUILD_FAILED' and status_message like 'The server that ran this build died%'";

/** Counts that must be 0 once all have settled: lost, done twice, not serving. */
export async function countWrong(db: pg.Client, accepted: Map<string, string>): Promise<Record<string, number>> {
  const ids = [...accepted.keys()];
  return {
    "accepted deployments that are lost": await counted(
      db,
      "unnest($1::uuid[]) as a (id) where not exists (select from deployments d where d.id = a.id)",
      [ids],
    ),
    "deployments that no create returned": await counted(db, "deployments where not id = any($1::uuid[])", [ids]),
    "revisions more or fewer than requested": await counted(
      db,
      `(select d.id from deployments d left join revisions r on r.deployment_id = d.id group by d.id
         having count(r.id) <> case when d.id = any($1::uuid[]) then 2 else 1 end) as odd`,
      [updatedOf(accepted)],
    ),
    "revisions that failed": await counted(
      db,
      `revisions where status not in ('DEPLOYED', 'SKIPPED') and not (${isGivenUp})`,
    ),
    "deployments whose active revision is not their newest": await counted(
      db,
      `deployments d where d.active_revision_id is distinct from
         (select r.id from revisions r where r.deployment_id = d.id and not (${isGivenUp})
           order by r.seq desc limit 1)`,
    ),
    "assignments of another revision than the active one": await counted(
      db,
      `deployments d join assignments a on a.deployment_id = d.id
        where a.spec -> 'target' ->> 'revision_id' is distinct from d.active_revision_id::text`,
    ),
    "status moves made twice": await counted(
      db,
      `(select 1 from events where kind = 'revision.status'
         group by revision_id, data ->> 'from', data ->> 'to' having count(*) > 1) as twice`,
    ),
  };
}

/** Deployments that get a second revision: every fourth of the simulated ones. */
export function updatedOf(accepted: Map<string, string>): string[] {
  return [...accepted].filter(([, name], index) => index % 4 === 0 && name.startsWith("storm-")).map(([id]) => id);
}

/** Counts that must be 0 once all are deleted. */
export async function countLeft(db: pg.Client, dataDirs: string[]): Promise<Record<string, number>> {
  const left: Record<string, number> = {};
  // An image artifact is only a row. Housekeeping deletes it an hour after its last use.
  left["rows left in artifacts"] = await counted(db, "artifacts where key not like 'image:%'");
  for (const table of ["revisions", "assignments", "observations", "reconcile_queue", "builds", "secret_sets"]) {
    left[`rows left in ${table}`] = await settled(() => counted(db, table));
  }
  // A living server holds one only while it works.
  left["leases of servers that are gone"] = await settled(() => counted(db, "leases where lease_until > now()"));
  return { ...left, ...(await countLeftOnDisk(dataDirs)) };
}

/** The same for directories and processes. */
export async function countLeftOnDisk(dataDirs: string[]): Promise<Record<string, number>> {
  const left: Record<string, number> = {};
  for (const name of ["replicas", "state", "builds", "artifacts", "uploads"]) {
    left[`entries left in ${name}/`] = await settled(() => entries(dataDirs, name));
  }
  left["processes left"] = await settled(() => strayProcesses(dataDirs));
  return left;
}

/** Returns the last number that was read: 0, or the number that remained. */
async function settled(count: () => Promise<number>): Promise<number> {
  return eventually(count, (found) => found === 0, { timeoutMs: 120_000 }).catch(count);
}

async function entries(dataDirs: string[], name: string): Promise<number> {
  const lists = await Promise.all(dataDirs.map((dataDir) => readdir(path.join(dataDir, name)).catch(() => [])));
  return lists.flat().length;
}

/** Processes with our marks: replicas of these data directories, and builds. */
async function strayProcesses(dataDirs: string[]): Promise<number> {
  let left = 0;
  for (const pid of await readdir("/proc").catch(() => [])) {
    if (!/^\d+$/.test(pid)) continue;
    const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
    const isOurs = /^PIERHEAD_(BUILD_ID|REPLICA_ID)=/m.test(environment.replaceAll("\0", "\n"));
    if (isOurs && dataDirs.some((dataDir) => environment.includes(dataDir))) left += 1;
  }
  return left;
}
