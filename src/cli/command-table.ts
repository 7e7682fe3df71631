import { adminCommand } from "./administration/admin-table.ts";
import { authCommand } from "./auth/auth-table.ts";
import { eventsCommand, webhooksCommand } from "./events/events-table.ts";
import { integrationsCommand, pushesCommand } from "./integrations/integrations-table.ts";
import { mainCommands } from "./main-table.ts";
import { databaseCommand } from "./server/database-table.ts";
import type { Session } from "./session.ts";

/** Ends with 0, or by a thrown failure. */
// biome-ignore lint/suspicious/noExplicitAny: each command has options of its own; the table below is where they meet.
export type Run = (session: Session, args: any, options: any) => Promise<void>;

export interface CommandSpec {
  name: string;
  /** Commander's notation: `<needed>`, `[optional]`, `<many...>`. */
  args?: readonly (readonly [notation: string, meaning: string])[];
  options?: readonly (readonly [flags: string, meaning: string, fallback?: string])[];
  summary: string;
  examples?: readonly string[];
  /** Shape of the `--json` answer, for the reference page. */
  json?: string;
  /** Loaded when the command runs: `--help` should not wait for what it does not use. */
  load?: () => Promise<Run>;
  commands?: readonly CommandSpec[];
  hidden?: boolean;
}

/** Every command: what it is called, what it takes, and where it is done. Help, completion and docs are made from it. */
export const commandTable: readonly CommandSpec[] = [
  ...mainCommands,
  eventsCommand,
  authCommand,
  integrationsCommand,
  pushesCommand,
  webhooksCommand,
  databaseCommand,
  adminCommand,
];
