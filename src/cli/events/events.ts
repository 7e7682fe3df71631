import type { Event, EventType } from "../../contract/logs/event.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import type { Session } from "../session.ts";
import { harmless, type Paint } from "../terminal/terminal.ts";
import { headline, parseWhole, shortId } from "../terminal/text.ts";

interface EventsOptions {
  follow?: boolean;
  lines: string;
  types?: string;
}

/** Prints the events, oldest first. With `--json`, prints one object per line. */
export async function events(session: Session, [name]: string[], options: EventsOptions): Promise<void> {
  const { signal, terminal } = session;
  const client = await session.client();
  const id = name === undefined ? undefined : (await findDeployment(session, name)).id;
  const types = options.types === undefined ? {} : { types: options.types.split(",") as EventType[] };
  const query = { ...types, order: "desc" as const, limit: Math.max(1, Math.min(1_000, parseWhole(options.lines))) };
  const { events: newest } =
    id === undefined
      ? await client.listEvents(query, { signal })
      : await client.listDeploymentEvents({ ...query, deployment_id: id }, { signal });
  const print = (event: Event) =>
    terminal.print(session.options.json ? JSON.stringify(event) : render(event, terminal.paintOut));
  for (const event of newest.toReversed()) print(event);
  if (!options.follow) {
    if (newest.length === 0) terminal.say("No events yet.");
    return;
  }
  try {
    const question = { ...types, after: newest[0]?.id ?? "0", ...(id !== undefined && { deployment_id: id }) };
    for await (const watched of client.watchEvents(question, signal))
      if (watched.kind === "event") print(watched.event);
  } catch (error) {
    if (!signal.aborted) throw error; // Ctrl-C ends a followed stream
  }
}

function render(event: Event, paint: Paint): string {
  const when = event.created_at.slice(0, 19).replace("T", " ");
  const revision = event.revision_id === null ? "" : ` ${paint("cyan", shortId(event.revision_id))}`;
  const about = harmless(subjectOf(event));
  return `${paint("dim", when)} ${about}${revision} ${event.type} ${harmless(detailOf(event))}`.trimEnd();
}

/** The deployment, or what an alert concerns that belongs to none. */
function subjectOf({ deployment_name: name, deployment_id: id, data }: Event): string {
  if (name !== null) return name;
  if (id !== null) return shortId(id);
  return typeof data["subject"] === "string" ? data["subject"] : "-";
}

/** Formats the details of an event: `QUEUED -> BUILDING (a build slot is free)`, its message, or its fields. */
function detailOf({ type, data }: Event): string {
  const { from, to, because, ...rest } = data as Record<string, string | null | undefined>;
  // The lines of a log below a message are in `pierhead why`.
  const message = headline(rest["message"] ?? "");
  const isFailed = type === "revision.status" && to?.endsWith("_FAILED");
  if (to && isFailed && message !== "") return `${from ?? "?"} -> ${to}: ${message}`;
  if (to) return `${from ?? "?"} -> ${to}${because ? ` (${because})` : ""}`;
  if (message !== "" && type === "replica.exited") {
    const inRow = Number(data["exits_in_a_row"]);
    return inRow > 1 ? `${message} (${inRow} exits in a row)` : message;
  }
  if (message !== "" && type.startsWith("alert.")) return message;
  return Object.entries(rest)
    .filter(([, value]) => value !== null && value !== "")
    .map(([key, value]) => `${key}=${Array.isArray(value) ? value.join(",") : value}`)
    .join(" ");
}
