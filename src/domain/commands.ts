import { errors } from "../contract/error.ts";
import { commandLengthMax } from "./limits.ts";

/**
 * Install and build commands are one line of programs joined by `&&`: nothing that redirects, pipes, substitutes,
 * backgrounds or quotes its way out of the line (contract 4.5).
 *
 * @throws ApiError 400 `invalidField`.
 */
export function checkCommand(field: string, command: string): void {
  const because = commandProblem(command);
  if (because !== null) throw errors.invalidField(field, because);
}

/** Why a command is refused, as the end of a sentence; null: it is fine. */
export function commandProblem(command: string): string | null {
  if (command.trim() === "") return "must not be blank; leave it out instead.";
  if (command.length > commandLengthMax) return `must have at most ${commandLengthMax} characters.`;
  const forbidden = /["`\\\n\r\0\t|;$<>]/.exec(command)?.[0];
  if (forbidden !== undefined) return `must not contain ${JSON.stringify(forbidden)}; join commands with &&.`;
  // A run of even length is read as && operators; an odd one leaves a single & over, which would send to background.
  const runs = command.match(/&+/g) ?? [];
  return runs.some((run) => run.length % 2 === 1) ? "must not contain a single &; join commands with &&." : null;
}
