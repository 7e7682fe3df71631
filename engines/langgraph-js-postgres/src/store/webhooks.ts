import type { Query } from "./database.ts";

export interface DueWebhook {
  webhook_id: string;
  run_id: string;
  url: string;
  payload: Record<string, unknown>;
  attempt: number;
}

/** Takes due deliveries. Another replica takes them again if this one has not removed them after a minute. */
export function takeWebhooks(query: Query, limit: number): Promise<DueWebhook[]> {
  return query<DueWebhook>(
    `update @webhooks set attempt = attempt + 1, due_at = now() + attempt * interval '30 seconds' + interval '1 minute'
     where webhook_id in (select webhook_id from @webhooks where due_at <= now() order by due_at limit $1 for update skip locked)
     returning webhook_id, run_id, url, payload, attempt`,
    [limit],
  );
}

export async function removeWebhook(query: Query, id: string): Promise<void> {
  await query("delete from @webhooks where webhook_id = $1", [id]);
}
