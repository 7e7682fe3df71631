import { errors } from "../contract/error.ts";
import { commandLengthMax } from "./limits.ts";

/**
 * Checks an install or build command: one line of programs joined by `&&`, without redirects, pipes, substitutions,
 * background jobs, or quotes that escape from the line (contract 4.5).
 *
 * @throws ApiError 400 `invalidField`.
 */
export function checkCommand(field: string, command: string): void {
  const because = commandProblem(command);
  if (because !== null) throw errors.invalidField(field, because);
}

/** Returns why a command is refused, as the end of a sentence; null: it is valid. */
export function commandProblem(command: string): string | null {
  if (command.trim() === "") return "must not be blank; leave it out instead.";
  if (command.length > commandLengthMax) return `must have at most ${commandLengthMax} characters.`;
  const forbidden = /["`\\\n\r\0\t|;$<>]/.exec(command)?.[0];
  if (forbidden !== undefined) return `must not contain ${JSON.stringify(forbidden)}; join commands with &&.`;
  // A run of even length is read as && operators. An odd one leaves a single &, which would start a background job.
  const runs = command.match(/&+/g) ?? [];
  return runs.some((run) => run.length % 2 === 1) ? "must not contain a single &; join commands with &&." : null;
}
