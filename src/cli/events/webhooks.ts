import type { EventType } from "../../contract/logs/event.ts";
import type { Webhook, WebhookDelivery } from "../../contract/webhooks/webhook.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { choose, everyPage, tableOf } from "../terminal/choose.ts";
import { confirm } from "../terminal/prompt.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, parseWhole, shortId } from "../terminal/text.ts";

interface Settings {
  address?: string;
  types?: string;
  deployment?: string;
  description?: string;
  enable?: boolean;
  disable?: boolean;
}

export async function webhooksList(session: Session): Promise<void> {
  const webhooks = await allWebhooks(session);
  session.answer({ webhooks }, () => {
    const rows = webhooks.map((webhook) => [
      shortId(webhook.id),
      stateOf(webhook),
      webhook.types?.join(", ") ?? "all",
      webhook.deployment_ids?.map(shortId).join(", ") ?? "all",
      webhook.url,
      webhook.description ?? "",
    ]);
    return tableOf(session, ["ID", "STATE", "EVENTS", "DEPLOYMENTS", "ADDRESS", "FOR"], rows);
  });
  if (webhooks.length === 0) session.terminal.say("No webhooks. Create one: pierhead webhooks create URL");
}

export async function webhooksCreate(
  session: Session,
  [url = ""]: string[],
  options: Settings & { slack?: boolean },
): Promise<void> {
  const client = await session.client();
  const made = await client.createWebhook(
    { body: { ...(await settingsOf(session, options)), url, ...(options.slack && { format: "slack" as const }) } },
    { signal: session.signal },
  );
  const isSigned = made.format === "standard";
  session.answer(made, () => (isSigned ? made.secret : undefined));
  const about = isSigned ? "Its secret is shown only once." : "It gets messages for people, without a signature.";
  session.terminal.say(`Webhook ${shortId(made.id)} is active. ${about}`);
  session.terminal.say(`Try it:  pierhead webhooks test ${shortId(made.id)}`);
}

export async function webhooksUpdate(session: Session, [name = ""]: string[], options: Settings): Promise<void> {
  if (options.enable && options.disable) throw usageFailure("--enable and --disable exclude each other.");
  const client = await session.client();
  const { id } = await findWebhook(session, name);
  const body = {
    ...(await settingsOf(session, options)),
    ...(options.address !== undefined && { url: options.address }),
  };
  const webhook = await client.patchWebhook({ webhook_id: id, body }, { signal: session.signal });
  session.answer(webhook, () => undefined);
  session.terminal.say(`Webhook ${shortId(id)} is ${stateOf(webhook)}.`);
}

export async function webhooksDelete(
  session: Session,
  [name = ""]: string[],
  options: { yes?: boolean },
): Promise<void> {
  const client = await session.client();
  const { id, url } = await findWebhook(session, name);
  if (!options.yes) await confirm(session, `Delete the webhook ${harmless(url)}?`);
  await client.deleteWebhook({ webhook_id: id }, { signal: session.signal });
  session.answer({ webhook_id: id, deleted: true }, () => undefined);
}

export async function webhooksSecret(session: Session, [name = ""]: string[]): Promise<void> {
  const client = await session.client();
  const { id } = await findWebhook(session, name);
  const made = await client.replaceWebhookSecret({ webhook_id: id }, { signal: session.signal });
  session.answer(made, () => made.secret);
  session.terminal.say("The new secret is shown only once. Messages are also signed with the old one for one day.");
}

export async function webhooksTest(session: Session, [name = ""]: string[]): Promise<void> {
  const client = await session.client();
  const { id } = await findWebhook(session, name);
  await showAttempt(session, await client.testWebhook({ webhook_id: id }, { signal: session.signal }));
}

export async function webhooksDeliveries(
  session: Session,
  [name = ""]: string[],
  options: { status?: string; lines: string },
): Promise<void> {
  const client = await session.client();
  const { id } = await findWebhook(session, name);
  const most = parseWhole(options.lines);
  const status = options.status as WebhookDelivery["status"] | undefined;
  const query = { webhook_id: id, ...(status !== undefined && { status }) };
  const deliveries: WebhookDelivery[] = [];
  let cursor: string | null = "";
  while (cursor !== null && deliveries.length < most) {
    const page = { page_size: Math.min(100, most - deliveries.length), ...(cursor !== "" && { cursor }) };
    const found: { items: WebhookDelivery[]; next_cursor: string | null } = await client.listWebhookDeliveries(
      { ...query, ...page },
      { signal: session.signal },
    );
    deliveries.push(...found.items);
    cursor = found.next_cursor;
  }
  session.answer({ deliveries, has_more: cursor !== null }, () => {
    const rows = deliveries.map((one) => [
      shortId(one.id),
      one.type,
      one.status,
      String(one.attempts),
      age(one.created_at),
      outcomeOf(one),
    ]);
    return tableOf(session, ["ID", "EVENT", "STATUS", "ATTEMPTS", "AGE", "LAST ATTEMPT"], rows);
  });
  if (deliveries.length === 0) session.terminal.say("No messages yet.");
}

export async function webhooksRedeliver(session: Session, [name = "", delivery = ""]: string[]): Promise<void> {
  const client = await session.client();
  const { id } = await findWebhook(session, name);
  const { items } = await client.listWebhookDeliveries({ webhook_id: id, page_size: 100 }, { signal: session.signal });
  const isWhole = delivery.length === 36;
  const chosen = isWhole ? delivery : choose(items, delivery, { what: "delivery", nameOf: (one) => one.id }).id;
  const ids = { webhook_id: id, delivery_id: chosen };
  await showAttempt(session, await client.redeliverWebhook(ids, { signal: session.signal }));
}

/** Time limit of the receiver plus the delay before the server sends. */
const attemptWaitMs = 20_000;

/** Waits for the requested attempt and prints its result. */
async function showAttempt(session: Session, sent: WebhookDelivery): Promise<void> {
  const endAt = performance.now() + attemptWaitMs;
  for (;;) {
    const delivery = (await readDelivery(session, sent)) ?? sent;
    const isOver = delivery.attempts > 0 && (delivery.response_status !== null || delivery.error !== null);
    if (!isOver && performance.now() < endAt) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      continue;
    }
    session.answer(delivery, () => `${delivery.status}: ${outcomeOf(delivery)}`);
    if (delivery.status !== "delivered") {
      const because = isOver ? outcomeOf(delivery) : "There is no response yet.";
      throw new CliFailure("The message was not delivered.", { because: harmless(because) });
    }
    return;
  }
}

/** Searches all deliveries, because a redelivered message keeps its position behind newer ones. */
async function readDelivery(
  session: Session,
  { webhook_id, id }: WebhookDelivery,
): Promise<WebhookDelivery | undefined> {
  const client = await session.client();
  const all = client.all("listWebhookDeliveries", { webhook_id }, { signal: session.signal });
  for await (const delivery of all) if (delivery.id === id) return delivery;
  return undefined;
}

async function settingsOf(session: Session, { types, deployment, description, enable, disable }: Settings) {
  const names = deployment === undefined || deployment === "all" ? [] : deployment.split(",");
  const ids = [];
  for (const name of names) ids.push((await findDeployment(session, name.trim())).id);
  const chosen = types === "all" ? null : (types?.split(",").map((type) => type.trim()) as EventType[] | undefined);
  return {
    ...(types !== undefined && chosen !== undefined && { types: chosen }),
    ...(deployment !== undefined && { deployment_ids: ids.length === 0 ? null : ids }),
    ...(description !== undefined && { description }),
    ...(enable && { enabled: true }),
    ...(disable && { enabled: false }),
  };
}

async function allWebhooks(session: Session): Promise<Webhook[]> {
  const client = await session.client();
  return everyPage((page) => client.listWebhooks(page, { signal: session.signal }));
}

async function findWebhook(session: Session, wanted: string): Promise<Webhook> {
  const all = await allWebhooks(session);
  const byUrl = all.filter(({ url }) => url === wanted);
  if (byUrl.length === 1) return byUrl[0] as Webhook;
  return choose(all, wanted, { what: "webhook", nameOf: ({ description, url }) => description ?? url });
}

function stateOf({ enabled, failing_since, disabled_reason }: Webhook): string {
  if (!enabled) return disabled_reason === null ? "off" : "switched off";
  return failing_since === null ? "on" : "failing";
}

function outcomeOf({ error, duration_ms: ms, ...response }: WebhookDelivery): string {
  const { response_status: status, response_bytes: bytes, response_text: text } = response;
  if (error !== null) return error;
  if (status === null) return "-";
  const first = (text ?? "").trim().split("\n")[0]?.slice(0, 60) ?? "";
  return `${status} in ${ms} ms, ${bytes ?? 0} bytes${first === "" ? "" : `: ${first}`}`;
}
