import { randomUUID } from "node:crypto";
import { errors } from "../../contract/error.ts";
import type { DeliveryStatus, WebhookFormat } from "../../contract/webhooks/webhook.ts";
import { orderedAttemptsMax, webhookFailingMaxMs } from "../../domain/webhook-schedule.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import type { Sealed } from "../secrets/seal.ts";
import { webhookDeliveriesTable } from "./tables.ts";
import { auditedWebhook, lockWebhook } from "./webhooks.ts";

const deliveryFields = pick(
  webhookDeliveriesTable,
  "id",
  "seq",
  "webhook_id",
  "event_id",
  "type",
  "payload",
  "status",
  "attempts",
  "next_attempt_at",
  "last_attempt_at",
  "duration_ms",
  "response_status",
  "response_bytes",
  "response_text",
  "error",
  "created_at",
);

export type DeliveryRow = RowOf<typeof deliveryFields>;

/** A delivery that its claimer will send soon. */
export interface ClaimedDelivery extends Sealed {
  id: string;
  webhookId: string;
  tenantId: string;
  /** Scheme and host; the address itself is sealed. */
  origin: string;
  format: WebhookFormat;
  payload: string;
  /** Includes this attempt. */
  attempts: number;
}

/** The result of an attempt. */
export interface AttemptResult {
  durationMs: number;
  responseStatus: number | null;
  responseBytes: number | null;
  /** null: there was no answer, or the operator does not allow to record it. */
  responseText: string | null;
  error: string | null;
}

/** Events per statement. */
const eventsMax = 5_000;

/**
 * Creates the deliveries of events up to `settled`, below which all events are settled, one batch per call. Deliveries and
 * the new position are one commit, so of two concurrent servers one finds nothing to do.
 * @returns whether there are more events.
 */
export async function createDeliveries(db: Db, settled: number): Promise<boolean> {
  const { from, upTo, given } = await nextEvents(db, settled);
  // Beyond the assigned numbers: the database was restored from an older copy than what was read, and will reuse the numbers.
  if (from >= settled || settled > given) return false;
  await db.query(sql`
    with place as (
      insert into webhook_position (event_id) values (${upTo})
      on conflict (singleton) do update set event_id = excluded.event_id where webhook_position.event_id = ${from}
      returning 1
    )
    insert into webhook_deliveries (id, webhook_id, tenant_id, event_id, type, payload, status, next_attempt_at)
    select gen_random_uuid(), w.id, e.tenant_id, e.id, e.kind, ${payload}, 'pending', now()
      from place, events e
      join webhooks w on w.tenant_id = e.tenant_id and w.enabled and w.after_event < e.id
       and (w.types is null or e.kind = any(w.types))
       and (w.deployment_ids is null or e.deployment_id = any(w.deployment_ids))
      left join deployments d on d.id = e.deployment_id
     where e.id > ${from} and e.id <= ${upTo} order by e.id, w.id`);
  db.reached("webhook deliveries created");
  return upTo < settled;
}

/** Counts events, not numbers, because a restore skips a thousand million numbers. */
async function nextEvents(db: Db, settled: number): Promise<{ from: number; upTo: number; given: number }> {
  const { rows } = await db.query<{ from: number; upTo: number; given: number }>(sql`
    select place.event_id as "from", (select last_value from events_id_seq) as given, (
      select case when count(*) < ${eventsMax} then ${settled}::bigint else max(id) end
        from (select id from events where id > place.event_id and id <= ${settled} order by id limit ${eventsMax}) page
    ) as "upTo" from (select coalesce((select event_id from webhook_position), 0) as event_id) place`);
  return rows[0] as { from: number; upTo: number; given: number };
}

/** The data of an event. Its message may contain a command that the driver could not complete with the deployment's name. */
const namedData = sql`
      case when e.data ->> 'message' like '%pierhead env set DEPLOYMENT %' and d.name is not null
        then jsonb_set(e.data, '{message}', to_jsonb(replace(e.data ->> 'message', 'env set DEPLOYMENT ', 'env set ' || d.name || ' ')))
        else e.data end`;

/** The signed payload: an event as the API shows it, in the envelope of the Standard Webhooks specification. */
const payload = sql`
      jsonb_build_object('type', e.kind, 'timestamp', to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'data', jsonb_build_object('id', e.id::text, 'type', e.kind, 'tenant_id', e.tenant_id, 'data', ${namedData},
          'created_at', to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
          'deployment_id', e.deployment_id, 'deployment_name', coalesce(d.name, e.data ->> 'name'),
          'revision_id', e.revision_id))::text`;

/** How many more messages each workspace may have claimed. */
export interface ClaimShares {
  listed: ReadonlyMap<string, number>;
  others: number;
}

/** Messages behind which later ones no longer wait, per claim. */
const overtakenMax = 1_000;

/** Consecutive messages of one webhook that are claimed together. */
const rowMax = 8;

/**
 * Claims due deliveries: the oldest messages of each webhook, which are sent one after the other, and those that failed so
 * often that later ones no longer wait for them. Of two servers one gets them; if it dies, they are free when the lease ends.
 * @param worker.owner unique for each start of a server.
 * @param worker.shares messages that workspaces may have claimed in addition; `others` is for those that are not listed.
 * @returns in the order of the events.
 */
export async function claimDeliveries(
  db: Db,
  worker: { owner: string; limit: number; leaseMs: number; shares: ClaimShares },
): Promise<ClaimedDelivery[]> {
  const { limit, shares } = worker;
  const ofWorkspace = sql`coalesce((select s.max from unnest(${[...shares.listed.keys()]}::uuid[],
    ${[...shares.listed.values()]}::int[]) as s (tenant_id, max) where s.tenant_id = due.tenant_id), ${shares.others}::int)`;
  const { rows } = await db.query<ClaimedDelivery & { seq: number }>(sql`
    with heads as (
      select h.id, w.id as webhook_id, w.tenant_id, h.n from webhooks w cross join lateral (
          select p.id, row_number() over (order by p.seq) as n,
                 bool_and(p.next_attempt_at <= now() and ${isFree("p")}) over (order by p.seq) as is_due
            from (select d.id, d.seq, d.next_attempt_at, d.lease_until from webhook_deliveries d
                   where d.webhook_id = w.id and d.status = 'pending' and d.attempts < ${orderedAttemptsMax}
                   order by d.seq limit ${rowMax}) p) h
       where w.enabled and h.is_due
    ), overtaken as (
      select d.id, d.webhook_id, d.tenant_id, 0 as n
        from webhook_deliveries d join webhooks w on w.id = d.webhook_id and w.enabled
       where d.status = 'pending' and d.attempts >= ${orderedAttemptsMax} and d.next_attempt_at <= now() and ${isFree("d")}
       limit ${overtakenMax}
    ), due as (
      -- The first messages of all webhooks come first.
      select *, row_number() over (partition by tenant_id order by rank, webhook_id) as place
        from (select *, n as rank from heads union all select *, 2 as rank from overtaken) found
    ), shared as (
      select * from due where place <= ${ofWorkspace} order by rank limit ${limit}
    ), locked as (
      select d.id from webhook_deliveries d
       where d.id in (select id from shared) and d.status = 'pending' and ${isFree("d")} for update skip locked
    ), numbered as (
      select h.id, h.n, row_number() over (partition by h.webhook_id, h.n = 0 order by h.n) as m
        from shared h join locked l on l.id = h.id
    ), chosen as (
      -- If another server has just taken one, the ones behind it are not claimed either.
      select id from numbered where n = m or n = 0
    )
    update webhook_deliveries d
       set lease_owner = ${worker.owner}, lease_until = now() + ${worker.leaseMs} * interval '1 millisecond',
           attempts = d.attempts + 1
      from chosen c, webhooks w where d.id = c.id and w.id = d.webhook_id
    returning d.id, d.seq, d.webhook_id as "webhookId", d.tenant_id as "tenantId", w.origin, w.format, d.payload, d.attempts,
              w.data_key_id as "keyId", w.sealed`);
  if (rows.length > 0) db.reached("webhook deliveries claimed");
  return rows.toSorted((a, b) => a.seq - b.seq);
}

const isFree = (delivery: string) =>
  sql`(${sql.identifier(`${delivery}.lease_until`)} is null or ${sql.identifier(`${delivery}.lease_until`)} < now())`;

/** Returns deliveries that this worker claimed and did not send, as if they had not been claimed. @param ids null: all of them. */
export async function releaseDeliveries(db: Db, owner: string, ids: string[] | null): Promise<void> {
  await db.query(sql`
    update webhook_deliveries set lease_owner = null, lease_until = null, attempts = attempts - 1
     where lease_owner = ${owner} and status = 'pending' and (${ids}::uuid[] is null or id = any(${ids}::uuid[]))`);
}

type Claim = Pick<ClaimedDelivery, "id" | "attempts"> & { owner: string };

const isHeldBy = ({ id, attempts, owner }: Claim) =>
  sql`id = ${id} and lease_owner = ${owner} and attempts = ${attempts} and status = 'pending'`;

const attempted = ({ durationMs, responseStatus, responseBytes, responseText, error }: AttemptResult) => sql`
  lease_owner = null, lease_until = null, last_attempt_at = now() - ${durationMs} * interval '1 millisecond',
  duration_ms = ${Math.round(durationMs)}, response_status = ${responseStatus},
  response_bytes = ${responseBytes}, response_text = ${responseText}, error = ${error}`;

/** Records a successful attempt. Writes nothing if the claim was lost meanwhile. */
export async function settleDelivered(db: Db, claim: Claim, result: AttemptResult): Promise<void> {
  await db.query(sql`
    with delivery as (
      update webhook_deliveries set status = 'delivered', next_attempt_at = null, ${attempted(result)}
       where ${isHeldBy(claim)} returning webhook_id
    )
    update webhooks w set failing_since = null from delivery d
     where w.id = d.webhook_id and w.failing_since is not null`);
  db.reached("webhook delivery settled");
}

/** Records a failed attempt and schedules the next one. */
export async function settleFailed(db: Db, claim: Claim, result: AttemptResult, retryInMs: number): Promise<void> {
  await db.query(sql`
    with delivery as (
      update webhook_deliveries set next_attempt_at = now() + ${retryInMs} * interval '1 millisecond', ${attempted(result)}
       where ${isHeldBy(claim)} returning webhook_id
    )
    update webhooks w set failing_since = now() from delivery d
     where w.id = d.webhook_id and w.failing_since is null`);
}

/**
 * Records the last failed attempt. Disables the webhook if no other delivery succeeded for long, or if the receiver answers
 * that it is gone. An event and the audit log record that.
 * @returns whether the webhook was disabled.
 */
export async function settleGivenUp(
  db: Db,
  claim: Claim,
  result: AttemptResult,
  { isGone, reason }: { isGone: boolean; reason: string },
): Promise<boolean> {
  const isSwitchedOff = await db.transaction(async (trx) => {
    const { rows } = await trx.query<{ id: string; tenantId: string; organizationId: string; origin: string }>(sql`
      with delivery as (
        update webhook_deliveries set status = 'failed', next_attempt_at = null, ${attempted(result)}
         where ${isHeldBy(claim)} returning webhook_id
      ), webhook as (
        update webhooks w set enabled = false, disabled_reason = ${reason}, updated_at = now() from delivery d
         where w.id = d.webhook_id and w.enabled
           and (${isGone} or w.failing_since < now() - ${webhookFailingMaxMs} * interval '1 millisecond')
        returning w.id, w.tenant_id, w.origin
      ), event as (
        insert into events (tenant_id, kind, data)
        select tenant_id, 'webhook.disabled', jsonb_build_object('webhook_id', id, 'reason', ${reason}::text) from webhook
      )
      select w.id, w.tenant_id as "tenantId", s.organization_id as "organizationId", w.origin
        from webhook w join workspaces s on s.id = w.tenant_id`);
    const [webhook] = rows;
    if (webhook === undefined) return false;
    const owner = { ...webhook, actor: "system" };
    await trx.query(auditedWebhook(owner, webhook, { action: "webhook.disable", details: { reason } }));
    return true;
  });
  if (isSwitchedOff) db.changes.wakeWatchers();
  return isSwitchedOff;
}

/** Returns when the next delivery of other workspaces than these becomes due or its lease ends; null: none is pending. */
export async function nextDeliveryAt(db: Db, except: readonly string[]): Promise<Date | null> {
  const { rows } = await db.query<{ at: Date | null }>(sql`
    select min(greatest(d.next_attempt_at, d.lease_until)) as at
      from webhook_deliveries d join webhooks w on w.id = d.webhook_id and w.enabled
     where d.status = 'pending' and d.tenant_id <> all(${except}::uuid[])`);
  return rows[0]?.at ?? null;
}

const columns = selectList(deliveryFields, "d");

/** Returns deliveries, newest first. */
export async function listDeliveries(
  db: Db,
  webhookId: string,
  page: { status: DeliveryStatus | null; before: number | null; limit: number },
): Promise<DeliveryRow[]> {
  const { rows } = await db.query<DeliveryRow>(sql`
    select ${columns} from webhook_deliveries d
     where d.webhook_id = ${webhookId} and (${page.status}::text is null or d.status = ${page.status})
       and (${page.before}::bigint is null or d.seq < ${page.before}) order by d.seq desc limit ${page.limit}`);
  return rows;
}

interface Owner {
  organizationId: string;
  tenantId: string;
  actor: string;
}

/**
 * Adds a test message to a webhook.
 * @throws ApiError 404; 400 `webhookDisabled`.
 */
export async function addTestDelivery(db: Db, owner: Owner, webhookId: string): Promise<DeliveryRow> {
  const id = randomUUID();
  const timestamp = db.now().toISOString();
  const text = JSON.stringify({ type: "webhook.test", timestamp, data: { webhook_id: webhookId } });
  return db.transaction(async (trx) => {
    const webhook = await lockEnabled(trx, owner, webhookId);
    await trx.query(sql`
      with delivery as (
        insert into webhook_deliveries (id, webhook_id, tenant_id, type, payload, status, next_attempt_at)
        values (${id}, ${webhookId}, ${owner.tenantId}, 'webhook.test', ${text}, 'pending', now())
      ) ${auditedWebhook(owner, webhook, { action: "webhook.test" })}`);
    return readDelivery(trx, webhookId, id);
  });
}

/**
 * Sends a message again, whatever its status. A message that is being sent is left alone.
 * @throws ApiError 404; 400 `webhookDisabled`.
 */
export async function redeliver(db: Db, owner: Owner, path: { webhookId: string; id: string }): Promise<DeliveryRow> {
  return db.transaction(async (trx) => {
    const webhook = await lockEnabled(trx, owner, path.webhookId);
    await readDelivery(trx, path.webhookId, path.id);
    const details = { delivery_id: path.id };
    await trx.query(sql`
      with delivery as (
        update webhook_deliveries set status = 'pending', attempts = 0, next_attempt_at = now(), lease_owner = null,
               lease_until = null, error = null, response_status = null, response_bytes = null,
               response_text = null, duration_ms = null
         where id = ${path.id} and (lease_until is null or lease_until < now())
      ) ${auditedWebhook(owner, webhook, { action: "webhook.redeliver", details })}`);
    return readDelivery(trx, path.webhookId, path.id);
  });
}

async function lockEnabled(trx: Trx, owner: Owner, webhookId: string) {
  const webhook = await lockWebhook(trx, owner.tenantId, webhookId);
  if (!webhook.enabled) throw errors.webhookDisabled(webhookId);
  return webhook;
}

async function readDelivery(trx: Trx, webhookId: string, id: string): Promise<DeliveryRow> {
  const { rows } = await trx.query<DeliveryRow>(sql`
    select ${columns} from webhook_deliveries d where d.id = ${id} and d.webhook_id = ${webhookId}`);
  if (rows[0] === undefined) throw errors.deliveryNotFound(id);
  return rows[0];
}
