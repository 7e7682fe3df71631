import { CliFailure, exitCodes, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";

/** Asks yes or no; without a person there, `--yes` has to say it. */
export async function confirm(session: Session, question: string): Promise<void> {
  const { confirm: ask } = await open(session, "Say yes with --yes.");
  await answered(ask({ message: question, initialValue: false, ...streams(session) }), (yes) => yes);
}

/** Asks for the name of what will be destroyed: a reflex does not type it. */
export async function confirmByName(session: Session, question: string, name: string): Promise<void> {
  const { text } = await open(session, "Say yes with --yes.");
  await answered(text({ message: question, placeholder: name, ...streams(session) }), (typed) => typed === name);
}

/** Asks for a value that is not shown while it is typed. */
export async function askSecret(session: Session, question: string): Promise<string> {
  const { password } = await open(session, "Send the value on stdin.");
  return answered(password({ message: question, ...streams(session) }), () => true);
}

async function open(session: Session, instead: string) {
  if (!session.terminal.isInteractive) throw usageFailure("Nobody is there to answer a question.", instead);
  return import("@clack/prompts");
}

/** Questions stand on stderr: stdout is for data. */
function streams({ context, signal }: Session) {
  return { input: context.stdin, output: context.stderr, signal };
}

async function answered<T>(
  asking: Promise<T>,
  accepts: (answer: Exclude<T, symbol>) => boolean,
): Promise<Exclude<T, symbol>> {
  const answer = await asking;
  if (typeof answer !== "symbol" && accepts(answer as Exclude<T, symbol>)) return answer as Exclude<T, symbol>;
  throw new CliFailure("Cancelled: nothing was changed.", { exitCode: exitCodes.cancelled, isNotice: true });
}
