import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { HealthWord } from "../../contract/deployments/health.ts";
import type { Paint, Style } from "../terminal/terminal.ts";
import { harmless } from "../terminal/terminal.ts";
import { wayOut } from "./way-out.ts";

/** How the command line shows each health word. */
const shown: Readonly<Record<HealthWord, { text: string; style: Style }>> = {
  live: { text: "live", style: "green" },
  deploying: { text: "deploying", style: "cyan" },
  degraded: { text: "degraded", style: "yellow" },
  crash_looping: { text: "crash-looping", style: "red" },
  failed: { text: "failed", style: "red" },
  sleeping: { text: "sleeping", style: "dim" },
  deleting: { text: "deleting", style: "dim" },
  unknown: { text: "unknown", style: "yellow" },
};

/** The health words as `pierhead list --health` takes them. */
export const healthTexts = Object.values(shown).map(({ text }) => text);

/** Returns the health that a text names, with a hyphen or an underscore; undefined: there is no such health. */
export function healthOfText(text: string): HealthWord | undefined {
  const word = text.toLowerCase().replace("-", "_");
  return Object.hasOwn(shown, word) ? (word as HealthWord) : undefined;
}

type Observed = Pick<Deployment, "status"> & Partial<Pick<Deployment, "health">>;

/** Returns the health of a deployment as text and colour. An older server does not send it, and a newer one may know more words. */
export function healthText({ health, status }: Observed): { text: string; style: Style } {
  if (health === undefined) return { text: status, style: "dim" };
  return shown[health.status] ?? { text: health.status, style: "dim" };
}

/** Lines of a log below a message. The log has the rest. */
const logLinesMax = 8;

/** Returns why a deployment is not well, with the last lines of a log where there are some, and what to do about it. */
export function healthLines(deployment: Deployment, paint: Paint): string[] {
  // An older server sends no health, or one without the failure.
  const { health } = deployment as Observed;
  if (health?.next_action == null) return [];
  const { text } = health.next_action;
  const command = health.failure == null ? null : wayOut(deployment, health.failure);
  const [first = "", ...rest] = harmless(health.message ?? "").split("\n");
  const message = first.replace(/ Last lines:$/, "");
  const lines = rest.filter((line) => line.trim() !== "").slice(-logLinesMax);
  return [
    ...(message === "" ? [] : [message]),
    ...lines.map((line) => paint("dim", `  ${line}`)),
    paint("bold", text),
    ...(command === null ? [] : [`  ${harmless(command)}`]),
    ...(health.can_roll_back ? [`  pierhead rollback ${harmless(deployment.name)}`] : []),
  ];
}
