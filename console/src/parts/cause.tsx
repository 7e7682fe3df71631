import { Fragment } from "react";
import type { DeploymentHealth } from "../../../src/contract/deployments/health.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { isFailure } from "./status.tsx";

/** The cause of a bad health, in the pieces that pages lay out. */
export interface Cause {
  /** The sentence that says most. */
  title: string;
  /** The other sentences. */
  rest: string;
  /** The last lines of a log. */
  lines: string;
  /** A variable that the agent server misses. */
  variable: string | null;
}

const setVariable = / ?Set (?:it|each|them) with: pierhead env set \S+ ([A-Za-z_]\w*)(?: \w+)*\./;

/** Returns what the server's message says. The command that sets a variable becomes a link, so it is taken out. */
export function causeOf({ message, failure }: Pick<DeploymentHealth, "message" | "failure">): Cause {
  const [first = "", ...after] = (message ?? "").trim().split("\n");
  // A revision of an earlier server has only the message.
  const variable = failure?.variables[0] ?? setVariable.exec(first)?.[1] ?? null;
  const text = first
    .replace(setVariable, "")
    .replace(/ ?Last lines:$/, "")
    // A build that ends at once took no time worth a number.
    .replace(/ after 0\.0 s\b/, "")
    .trim();
  // A full stop in a file name or a number is followed by no space.
  const sentences = text.split(/(?<=[.!?])\s+(?=[A-Z`'"])/);
  const said = sentences.findIndex((sentence) => variable !== null && sentence.includes(variable));
  const [title = ""] = sentences.splice(Math.max(0, said), 1);
  return { title: title.replace(/\.$/, ""), rest: sentences.join(" "), lines: after.join("\n"), variable };
}

const starts = /^(It ends soon after each start\.|The newest revision failed, and the one before [^.]+\.) +/;

/** Returns the cause in a few words, for a row of a list. */
export function shortCause({ message, failure }: Pick<DeploymentHealth, "message" | "failure">): string {
  const { title } = causeOf({ message: (message ?? "").replace(starts, ""), failure });
  const short = title.replace(/^The agent server ended/, "Ended").replace(/ after [\d.]+ (?:ms|s|min)$/, "");
  return short.replaceAll("`", "");
}

/** A text of the server. What stands between backticks is code. */
export function Said({ text }: { text: string }) {
  const parts = text.split("`");
  // An odd number of backticks is no markup.
  if (parts.length % 2 === 0) return <>{text}</>;
  return (
    <>
      {parts.map((part, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the parts of one text have no other identity
        <Fragment key={at}>{at % 2 === 1 ? <code>{part}</code> : part}</Fragment>
      ))}
    </>
  );
}

/** Why a revision failed or was left out, with the last lines of the log. */
export function RevisionCause({ revision: { status, status_message: message, failure } }: { revision: Revision }) {
  const { title, rest, lines } = causeOf({ message, failure });
  return (
    <div className={isFailure(status) ? "cause bad" : "cause"}>
      <p>
        <b>
          <Said text={title} />
        </b>
        {rest !== "" && (
          <>
            . <Said text={rest} />
          </>
        )}
      </p>
      {lines !== "" && <pre>{lines}</pre>}
    </div>
  );
}
