import { CliFailure, exitCodes, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { harmless } from "./terminal.ts";

/** Asks for confirmation. A non-interactive call needs `--yes` instead. */
export async function confirm(session: Session, question: string): Promise<void> {
  const { confirm: ask } = await open(session, "Confirm with --yes.");
  await answered(ask({ message: harmless(question), initialValue: false, ...streams(session) }), (yes) => yes);
}

/** Asks the user to type the name of the object to destroy, which prevents confirmation by habit. */
export async function confirmByName(session: Session, question: string, name: string): Promise<void> {
  const { text } = await open(session, "Confirm with --yes.");
  await answered(
    text({ message: harmless(question), placeholder: name, ...streams(session) }),
    (typed) => typed === name,
  );
}

/** Asks for a value without echoing it. */
export async function askSecret(session: Session, question: string): Promise<string> {
  const { password } = await open(session, "Send the value on stdin.");
  return answered(password({ message: question, ...streams(session) }), () => true);
}

/** Asks the user to choose one of several values. */
export async function chooseOne(
  session: Session,
  question: string,
  choices: { value: string; label: string; hint: string }[],
): Promise<string> {
  const { select } = await open(session, "Choose with an option.");
  return answered(select({ message: harmless(question), options: choices, ...streams(session) }), () => true);
}

async function open(session: Session, instead: string) {
  if (!session.terminal.isInteractive)
    throw usageFailure("This command asks a question, and the terminal is not interactive.", instead);
  return import("@clack/prompts");
}

/** Prompts go to stderr, because stdout is for data. */
function streams({ context, signal }: Session) {
  return { input: context.stdin, output: context.stderr, signal };
}

async function answered<T>(
  asking: Promise<T>,
  accepts: (answer: Exclude<T, symbol>) => boolean,
): Promise<Exclude<T, symbol>> {
  const answer = await asking;
  if (typeof answer !== "symbol" && accepts(answer as Exclude<T, symbol>)) return answer as Exclude<T, symbol>;
  throw new CliFailure("Cancelled. Nothing was changed.", { exitCode: exitCodes.cancelled, isNotice: true });
}
