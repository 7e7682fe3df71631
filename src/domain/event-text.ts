/** What a message for people needs of an event. A test message has only a type. */
export interface ShownEvent {
  type: string;
  deployment: string | null;
  data: Readonly<Record<string, unknown>>;
}

/** A message for people: chat and mail. */
export interface EventText {
  /** One line. */
  title: string;
  /** Whether something is wrong, has ended well, or is plain news. */
  mood: "bad" | "good" | "neutral";
  /** What happened and what to do. Empty: the title says everything. */
  detail: string;
}

/** Returns an event in words. */
export function describeEvent({ type, deployment, data }: ShownEvent): EventText {
  const text = (key: string) => (typeof data[key] === "string" ? (data[key] as string) : "");
  const who = deployment ?? (text("subject") || "Pierhead");
  const detail = text("message");
  const to = words(text("to"));
  switch (type) {
    case "webhook.test":
      return { title: "Pierhead: test message", mood: "neutral", detail: "Notifications arrive here." };
    case "alert.firing":
      return { title: `${who}: ${ruleText(text("rule"))}`, mood: "bad", detail };
    case "alert.resolved":
      // The message is of the time when the alert began.
      return {
        title: `${who}: ${ruleText(text("rule"))} (resolved)`,
        mood: "good",
        detail: detail === "" ? "" : `It was: ${detail}`,
      };
    case "replica.exited":
      return { title: `${who}: a replica ended (${words(text("reason"))})`, mood: "bad", detail };
    case "deployment.health":
      return { title: `${who} is ${to}`, mood: moodOf(text("to")), detail };
    case "deployment.status":
    case "revision.status":
      return {
        title: `${who}: ${type === "revision.status" ? "revision" : "status"} ${to}`,
        mood: moodOf(text("to")),
        detail,
      };
    default:
      return { title: `${who}: ${words(type)}`, mood: "neutral", detail };
  }
}

/** Rules whose names say too little. */
const ruleTexts: Readonly<Record<string, string>> = {
  disk_used: "the disk is almost full",
  certificate_expiry: "the certificate expires soon",
  key_expiry: "the API key expires soon",
};

/** Returns what an alert is about: `crash looping`. */
export const ruleText = (rule: string) => (Object.hasOwn(ruleTexts, rule) ? (ruleTexts[rule] as string) : words(rule));

const badWords = ["failed", "crash", "degraded", "unknown"];
const goodWords = ["live", "deployed", "ready"];

function moodOf(status: string): EventText["mood"] {
  const word = status.toLowerCase();
  if (badWords.some((bad) => word.includes(bad))) return "bad";
  return goodWords.includes(word) ? "good" : "neutral";
}

/** `crash_looping`, `OutOfMemory` and `revision.created` as words. */
export const words = (name: string) =>
  name
    .replaceAll(/([a-z])([A-Z])/g, "$1 $2")
    .replaceAll(/[_.]/g, " ")
    .toLowerCase();
