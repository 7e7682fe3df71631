import type { Session } from "./session.ts";

/** Loads the full command table, which only completion needs at run time. */
export type LoadCommands = () => Promise<readonly CommandSpec[]>;

/** The function of a command. It returns on success (exit code 0) and throws a failure otherwise. */
// biome-ignore lint/suspicious/noExplicitAny: each command has its own arguments and options, and the tables hold them all.
export type Run = (session: Session, args: any, options: any, loadCommands: LoadCommands) => Promise<void>;

/** Declaration of a command, from which the parser, help, completion and reference page are made. */
export interface CommandSpec {
  name: string;
  /** Second name of the command. */
  alias?: string;
  /** In Commander's notation: `<required>`, `[optional]`, `<several...>`. */
  args?: readonly (readonly [notation: string, meaning: string])[];
  options?: readonly (readonly [flags: string, meaning: string, fallback?: string])[];
  summary: string;
  examples?: readonly string[];
  /** Type of the `--json` answer, in the notation of `answerTypes`. "none": the command prints no JSON. */
  json?: string;
  /** When or how the answer is printed, after a comma on the reference page. */
  jsonNote?: string;
  /** Imports the function when the command runs, so that `--help` and other commands stay fast. */
  load?: () => Promise<Run>;
  commands?: readonly CommandSpec[];
  hidden?: boolean;
  /** Heading under which the help lists the command. */
  group?: string;
}
