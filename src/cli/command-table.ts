import { adminCommand } from "./administration/admin-table.ts";
import { authCommand } from "./auth/auth-table.ts";
import type { CommandSpec } from "./command.ts";
import { eventsCommand, webhooksCommand } from "./events/events-table.ts";
import { integrationsCommand, pushesCommand } from "./integrations/integrations-table.ts";
import { loginCommands } from "./login/login-table.ts";
import { mainCommands } from "./main-table.ts";
import { databaseCommand } from "./server/database-table.ts";

/** All commands. Help, completion and the reference page are generated from this table. */
export const commandTable: readonly CommandSpec[] = [
  ...mainCommands,
  ...loginCommands,
  eventsCommand,
  authCommand,
  integrationsCommand,
  pushesCommand,
  webhooksCommand,
  databaseCommand,
  adminCommand,
];
