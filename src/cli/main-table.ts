import type { CommandSpec } from "./command.ts";
import { deploymentCommands } from "./deployments/deployments-table.ts";
import { serverCommands } from "./server/server-table.ts";
import { toolCommands } from "./tools/tools-table.ts";

/** The everyday commands. A call of one of them reads this table and none of the others. */
export const mainCommands: readonly CommandSpec[] = [...serverCommands, ...deploymentCommands, ...toolCommands];
