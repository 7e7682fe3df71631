import { adminCommand } from "./administration/admin-table.ts";
import { agentCommands } from "./agents/agents-table.ts";
import { alertsCommand } from "./alerts/alerts-table.ts";
import { authCommand } from "./auth/auth-table.ts";
import type { CommandSpec } from "./command.ts";
import { declarationCommands } from "./declaration/declaration-table.ts";
import { deploymentCommands } from "./deployments/deployments-table.ts";
import { eventsCommand, webhooksCommand } from "./events/events-table.ts";
import { integrationsCommand, pushesCommand } from "./integrations/integrations-table.ts";
import { loginCommands } from "./login/login-table.ts";
import { moveCommand } from "./move/move-table.ts";
import { databaseCommand } from "./server/database-table.ts";
import { serverCommands } from "./server/server-table.ts";
import { toolCommands } from "./tools/tools-table.ts";
import { groupsCommand } from "./variables/groups-table.ts";

const groups: Record<string, readonly CommandSpec[]> = {
  "Deployments:": [...deploymentCommands, moveCommand],
  "Declaration in a file:": declarationCommands,
  "Agents:": agentCommands,
  "Server and key:": loginCommands,
  "Workspace:": [
    groupsCommand,
    alertsCommand,
    eventsCommand,
    authCommand,
    integrationsCommand,
    pushesCommand,
    webhooksCommand,
    adminCommand,
  ],
  "Run a server:": [...serverCommands, databaseCommand],
  "This program:": toolCommands,
};

/** All commands. Help, completion and the reference page are generated from this table. */
export const commandTable: readonly CommandSpec[] = Object.entries(groups).flatMap(([group, commands]) =>
  commands.map((spec) => ({ ...spec, group })),
);
