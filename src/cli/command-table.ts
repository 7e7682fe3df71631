import { adminCommand } from "./administration/admin-table.ts";
import { authCommand } from "./auth/auth-table.ts";
import type { CommandSpec } from "./command.ts";
import { eventsCommand, webhooksCommand } from "./events/events-table.ts";
import { integrationsCommand, pushesCommand } from "./integrations/integrations-table.ts";
import { mainCommands } from "./main-table.ts";
import { databaseCommand } from "./server/database-table.ts";

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
