import { describeEvent } from "../domain/event-text.ts";
import type { Mail } from "../integrations/mail.ts";

/** The fields of a payload that messages for people use. */
interface Payload {
  type: string;
  timestamp: string;
  data: {
    tenant_id?: string;
    deployment_id?: string | null;
    deployment_name?: string | null;
    data?: Record<string, unknown>;
  };
}

const slackMarks = { bad: ":red_circle:", good: ":large_green_circle:", neutral: ":information_source:" } as const;

/** Returns the body of an incoming webhook of Slack, which Mattermost, Rocket.Chat and Discord's `/slack` addresses also take. */
export function slackBody(payload: string, consoleUrl: string | null): string {
  const { event, text, page } = read(payload, consoleUrl);
  const { title, mood, detail } = text;
  const link = page === null ? "" : `\n<${page}|Open in Pierhead>`;
  const body = detail === "" ? "" : `\n${escapeSlack(shortened(detail))}`;
  const fallback = `${slackMarks[mood]} *${escapeSlack(title)}*${body}${link}`;
  return JSON.stringify({
    text: fallback,
    ...(event.type === "webhook.test" ? {} : { unfurl_links: false, unfurl_media: false }),
  });
}

/**
 * Escapes the three characters that are special to Slack. Mattermost and Discord also notify everybody for a plain `@channel`
 * or `@everyone`, which an agent could print, so an invisible space follows each @.
 */
const escapeSlack = (text: string) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("@", "@\u200b");

/** Discord refuses messages of more than 2,000 characters. */
const detailMax = 1_000;

const shortened = (text: string) => (text.length > detailMax ? `${[...text].slice(0, detailMax - 1).join("")}…` : text);

/** Returns a mail about an event. The end of an alert answers the mail about its beginning, so that programs show them together. */
export function mailOf(
  payload: string,
  { to, deliveryId, consoleUrl }: { to: string; deliveryId: string; consoleUrl: string | null },
): Mail {
  const { event, text, page } = read(payload, consoleUrl);
  const { alert_id: alertId } = event.data.data ?? {};
  const first = typeof alertId === "string" ? messageId(`alert-${alertId}`) : null;
  const isFirst = event.type === "alert.firing";
  const lines = [
    text.detail === "" ? text.title : text.detail,
    "",
    `Time: ${event.timestamp}`,
    ...(page === null ? [] : [`Console: ${page}`]),
  ];
  return {
    to,
    subject: `[Pierhead] ${text.title}`,
    text: lines.join("\n"),
    messageId: isFirst && first !== null ? first : messageId(deliveryId),
    inReplyTo: isFirst ? null : first,
  };
}

const messageId = (name: string) => `<${name}@pierhead.invalid>`;

function read(payload: string, consoleUrl: string | null) {
  const event = JSON.parse(payload) as Payload;
  const { deployment_name: deployment = null, deployment_id: id, tenant_id: tenantId, data = {} } = event.data;
  const path = id == null ? pathOf(event) : `/o/${tenantId}/host/deployments/${id}`;
  const page = consoleUrl === null || path === null ? null : `${consoleUrl}${path}`;
  return { event, page, text: describeEvent({ type: event.type, deployment, data }) };
}

/** Returns the page of the console about an event that belongs to no deployment. */
const pathOf = ({ type }: Payload) => (type.startsWith("alert.") ? "/host/alerts" : null);
